from __future__ import annotations

import json

from support.doctor import Machine, failures, steps, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict

OURS = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"


def a_spec(kind: str = "nvidia.com/gpu", node: str = "/dev/nvidia0", version: str = "0.5.0") -> str:
    device = {"name": "0", "containerEdits": {"deviceNodes": [{"path": node}]}}
    return json.dumps({"cdiVersion": version, "kind": kind, "devices": [device]})


def test_none_are_needed_by_default(machine: Machine) -> None:
    assert machine.check("cdi-specs").verdict is Verdict.NOT_CHECKED


def test_a_specification_that_fits_is_well(machine: Machine) -> None:
    machine.tree.node("/dev/nvidia0", 195, 0)
    machine.tree.file(OURS, a_spec())
    machine.tree.file("/var/run/cdi/notes.txt", "")

    outcome = machine.check("cdi-specs")

    assert (outcome.verdict, outcome.summary) == (Verdict.OK, "1 file with 1 device")
    assert "/var/run/cdi: 1 file" in outcome.evidence


def test_one_that_is_older_than_the_node_is_a_warning(machine: Machine) -> None:
    machine.tree.file(OURS, a_spec())

    outcome = machine.check("cdi-specs")

    assert "/dev/nvidia0 is not on this host" in warnings(outcome)[0]
    assert f"gpu-node cdi validate {OURS}" in steps(outcome)


def test_a_container_cannot_look_for_nodes(machine: Machine) -> None:
    machine.environ = {"container": "podman"}
    machine.tree.file(OURS, a_spec())

    assert machine.check("cdi-specs").verdict is Verdict.OK


def test_two_files_with_one_device_conflict(machine: Machine) -> None:
    machine.tree.node("/dev/nvidia0", 195, 0)
    machine.tree.file("/etc/cdi/a.json", a_spec())
    machine.tree.file("/etc/cdi/b.json", a_spec())

    assert "no runtime resolves it" in failures(machine.check("cdi-specs"))[0]


def test_a_file_that_hides_another_is_a_warning(machine: Machine) -> None:
    machine.tree.node("/dev/nvidia0", 195, 0)
    machine.tree.file("/etc/cdi/a.json", a_spec())
    machine.tree.file("/var/run/cdi/a.json", a_spec())

    assert "is overridden by" in warnings(machine.check("cdi-specs"))[0]


def test_a_broken_file_fails(machine: Machine) -> None:
    machine.tree.file(OURS, '{"kind": 3')

    assert machine.check("cdi-specs").verdict is Verdict.FAILED


def test_many_findings_are_counted(machine: Machine) -> None:
    nodes = [{"path": f"/dev/x{number}"} for number in range(9)]
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": nodes}}],
    }
    machine.tree.file(OURS, json.dumps(spec))

    outcome = machine.check("cdi-specs")

    assert len(warnings(outcome)) == 5
    assert f"{OURS}: 4 further findings" in outcome.evidence


def test_what_is_no_file_fails(machine: Machine) -> None:
    machine.tree.folder("/etc/cdi/a.json")

    assert "cannot be read" in failures(machine.check("cdi-specs"))[0]


def test_a_strategy_of_cdi_without_specification_fails(machine: Machine) -> None:
    machine.options = ["--device-list-strategy=cdi-cri"]

    outcome = machine.check("cdi-specs")

    assert "is in none of /etc/cdi, /var/run/cdi" in failures(outcome)[0]
    machine.tree.node("/dev/nvidia0", 195, 0)
    machine.tree.file(OURS, a_spec("k8s.device-plugin.nvidia.com/gpu"))
    assert machine.check("cdi-specs").verdict is Verdict.OK
