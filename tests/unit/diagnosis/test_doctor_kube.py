from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.doctor import Machine, check_named, failures, some_facts, steps, told, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable

NAMES = ("node-labels", "node-capacity", "node-config")
LABELS = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "T4"}


def a_node(
    machine: Machine,
    *,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    capacity: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
) -> list[str]:
    """Lets the API answer; the names of the nodes that are asked for."""
    asked = list[str]()
    node = {
        "metadata": {"labels": LABELS if labels is None else labels},
        "spec": {"taints": taints} if taints is not None else {},
        "status": {"capacity": capacity or {}, "allocatable": allocatable or capacity or {}},
    }

    def get(_file: str, _environ: Mapping[str, str], name: str) -> dict[str, Any]:
        asked.append(name)
        return node

    machine.kubeconfig = "/kubeconfig"
    machine.edge(get_node=get)
    return asked


def refusing(machine: Machine, error: Exception) -> None:
    def get(_file: str, _environ: Mapping[str, str], _name: str) -> dict[str, Any]:
        raise error

    machine.environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    machine.edge(get_node=get)


@pytest.mark.parametrize("name", NAMES)
class TestApi:
    def test_without_access_it_says_how_to_get_it(self, machine: Machine, name: str) -> None:
        outcome = machine.check(name)

        assert outcome.verdict is Verdict.NOT_CHECKED
        assert "--kubeconfig" in steps(outcome)

    def test_an_api_that_does_not_answer_is_told(self, machine: Machine, name: str) -> None:
        refusing(machine, ApiUnreachable("no route"))

        assert machine.check(name).summary == "the node node-1: no route"

    def test_a_node_that_is_not_there_may_have_another_name(
        self, machine: Machine, name: str
    ) -> None:
        refusing(machine, ApiError("GET", 404))

        assert "--node-name" in steps(machine.check(name))

    def test_the_name_of_the_node_is_that_of_the_option(self, machine: Machine, name: str) -> None:
        asked = a_node(machine)
        machine.options = ["--node-name=n7"]

        machine.check(name)

        assert asked == ["n7"]


def test_the_api_is_asked_once(machine: Machine) -> None:
    asked = a_node(machine)
    host = machine.host()

    for name in NAMES:
        check_named(name)(host)

    assert asked == ["node-1"]


class TestLabels:
    def test_labels_that_are_there_are_well(self, machine: Machine) -> None:
        a_node(machine)

        outcome = machine.check("node-labels")

        assert outcome.verdict is Verdict.OK
        assert "label nvidia.com/gpu.product=T4" in outcome.evidence

    def test_a_node_without_labels_gets_no_pods(self, machine: Machine) -> None:
        a_node(machine, labels={})

        outcome = machine.check("node-labels")

        assert outcome.verdict is Verdict.FAILED
        assert "kubectl label node node-1 nvidia.com/gpu.present=true" in steps(outcome)

    def test_a_node_without_features_is_a_warning(self, machine: Machine) -> None:
        a_node(machine, labels={"feature.node.kubernetes.io/pci-10de.present": "true"})

        assert "GPU feature discovery" in warnings(machine.check("node-labels"))[0]

    def test_taints_keep_pods_away(self, machine: Machine) -> None:
        taints = [
            {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
            {"key": "soft", "effect": "PreferNoSchedule"},
            {"key": "team", "value": "a", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        ]
        a_node(machine, taints=taints)

        outcome = machine.check("node-labels")

        assert warnings(outcome) == [
            "the taint team:NoSchedule keeps pods with GPUs away, and the chart's as well",
            "the taint node.kubernetes.io/unschedulable:NoSchedule keeps pods with GPUs away",
            "the taint node.kubernetes.io/not-ready:NoSchedule keeps pods with GPUs away",
        ]
        assert "kubectl uncordon node-1" in steps(outcome)
        assert "kubectl taint node node-1 team-" in steps(outcome)
        assert "kubectl describe node node-1: its conditions" in steps(outcome)
        assert "not-ready-" not in str(steps(outcome))


class TestCapacity:
    def test_what_is_offered_is_there(self, machine: Machine) -> None:
        machine.options = ["--simulate=t4x4"]
        a_node(machine, capacity={"nvidia.com/gpu": "4", "cpu": "8"})

        outcome = machine.check("node-capacity")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "nvidia.com/gpu: 4")

    def test_what_is_missing_fails(self, machine: Machine) -> None:
        machine.options = ["--simulate=t4x4"]
        a_node(machine, capacity={"nvidia.com/gpu": "0"})

        assert failures(machine.check("node-capacity")) == [
            "nvidia.com/gpu: the plugin would offer 4, the node has 0"
        ]

    def test_unhealthy_devices_fail(self, machine: Machine) -> None:
        machine.options = ["--simulate=t4x4"]
        a_node(machine, capacity={"nvidia.com/gpu": "4"}, allocatable={"nvidia.com/gpu": "3"})

        assert failures(machine.check("node-capacity")) == ["nvidia.com/gpu: 1 of 4 are unhealthy"]

    def test_what_nobody_would_offer_is_a_warning(self, machine: Machine) -> None:
        machine.options = ["--simulate=t4x4"]
        a_node(
            machine,
            capacity={"nvidia.com/gpu": "4", "nvidia.com/gpu.shared": "9", "nvidia.com/old": "0"},
        )

        assert warnings(machine.check("node-capacity")) == [
            "nvidia.com/gpu.shared: the node has 9, the plugin with these options offers none"
        ]

    def test_without_the_driver_the_node_is_believed(self, machine: Machine) -> None:
        a_node(machine, capacity={"nvidia.com/gpu": "4"})
        outcome = machine.check("node-capacity")
        assert outcome.verdict is Verdict.OK
        assert "cannot be told from here" in told(outcome, Verdict.NOT_CHECKED)[0]

        machine.nvml = some_facts()
        assert (
            "NVML cannot be initialised"
            in (told(machine.check("node-capacity"), Verdict.NOT_CHECKED)[0])
        )

    def test_a_node_without_gpus_is_told_calmly(self, machine: Machine) -> None:
        a_node(machine)
        machine.options = ["--simulate=no-gpu"]

        assert machine.check("node-capacity").verdict is Verdict.NOT_CHECKED


class TestProfile:
    LABEL = "nvidia.com/device-plugin.config"

    def test_a_node_without_label_has_the_default(self, machine: Machine) -> None:
        a_node(machine)

        assert "the default applies" in machine.check("node-config").summary

    def test_a_configuration_that_is_there_is_well(self, machine: Machine) -> None:
        a_node(machine, labels={self.LABEL: "ts2"})
        machine.tree.file("/available-configs/ts2")
        machine.tree.link("/available-configs/..data", "..2026")

        outcome = machine.check("node-config")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "ts2 is there")
        assert "/available-configs: ts2" in outcome.evidence

    def test_one_that_is_not_there_fails(self, machine: Machine) -> None:
        a_node(machine, labels={self.LABEL: "typo"})
        machine.tree.file("/configs/ts2")
        machine.environ = {"CONFIG_FILE_SRCDIR": "/configs"}

        outcome = machine.check("node-config")

        assert "names 'typo', and /configs holds ts2" in failures(outcome)[0]
        assert f"--overwrite {self.LABEL}=ts2" in steps(outcome)

    def test_an_empty_directory_has_none(self, machine: Machine) -> None:
        a_node(machine, labels={self.LABEL: "x"})
        machine.tree.folder("/available-configs")

        assert "/available-configs holds no configuration" in machine.check("node-config").summary

    def test_a_directory_that_is_not_seen_is_told(self, machine: Machine) -> None:
        a_node(machine, labels={self.LABEL: "x"})

        assert "CONFIG_FILE_SRCDIR" in steps(machine.check("node-config"))


def test_a_node_of_an_odd_shape_does_no_harm(machine: Machine) -> None:
    machine.kubeconfig = "x"
    machine.edge(get_node=lambda *_: {"metadata": [], "spec": None, "status": {"capacity": 3}})

    assert all(machine.check(name).verdict in set(Verdict) for name in NAMES)
