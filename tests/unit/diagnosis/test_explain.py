"""What a node offers, and what has caused each thing."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from gpu_device_plugin.diagnosis.answers import parse_request
from gpu_device_plugin.diagnosis.comparison import Change, compare
from gpu_device_plugin.diagnosis.explanation import Explanation
from gpu_device_plugin.diagnosis.narrow import narrow
from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.programs.commands.explain import _explanation

SHARED = """\
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
      - name: nvidia.com/gpu
        replicas: 4
extensions:
  gpus:
    exclude: [3]
"""


@pytest.fixture(name="explain")
def _explain(tmp_path: Path):
    def explain(
        profile: str, text: str = "", *arguments: str, environ: dict[str, str] | None = None
    ) -> Explanation:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        file.write_text(textwrap.dedent(text))
        requests = [parse_request(a) for a in arguments if not a.startswith("-")]
        options = [a for a in arguments if a.startswith("-")]
        config = [f"--config-file={file}"] if text else []
        simulate = [f"--simulate={profile}"]
        return _explanation([*simulate, *config, *options], environ or {}, requests)

    return explain


def because(explanation: Explanation, resource: str) -> list[str]:
    (found,) = (r for r in explanation.resources if r.name == resource)
    return [
        f"{c.what}: {c.by}{f':{c.place.line}' if c.place else ''}".removeprefix(": ")
        for c in found.causes
    ]


def device(explanation: Explanation, what: str) -> tuple[str, list[str]]:
    (found,) = (d for d in explanation.devices if d.what == what)
    return found.resource, [
        f"{c.what}: {c.by}{f':{c.place.line}' if c.place else ''}".removeprefix(": ")
        for c in found.causes
    ]


def test_replicas_names_and_exclusions_have_their_lines(explain) -> None:
    found = explain("dgx-a100", SHARED)

    (resource,) = found.resources
    assert (resource.name, resource.count) == ("nvidia.com/gpu.shared", 28)
    assert resource.sum == "7 GPUs x 4 replicas"
    assert because(found, "nvidia.com/gpu.shared") == [
        "named nvidia.com/gpu: built-in rule",
        "time-sliced, 4 replicas: sharing.timeSlicing.resources[0]:6",
        (
            "renamed from nvidia.com/gpu to nvidia.com/gpu.shared: "
            "sharing.timeSlicing.renameByDefault:4"
        ),
        (
            "a container may ask for several replicas: "
            "default of failRequestsGreaterThanOne with time-slicing"
        ),
    ]
    assert device(found, "GPU 3") == ("", ["excluded: extensions.gpus.exclude:10"])
    assert not found.problems


def test_gpus_that_are_not_included_say_so(explain) -> None:
    found = explain("dgx-a100", "extensions: {gpus: {include: [0, 1]}}")

    assert device(found, "GPU 2") == ("", ["not selected: extensions.gpus.include:1"])
    assert device(found, "GPU 1")[0] == "nvidia.com/gpu"


def test_mig_devices_name_the_strategy(explain) -> None:
    found = explain("dgx-a100-mig", "", "--mig-strategy=mixed")

    assert device(found, "GPU 0") == ("", ["but 4 MIG devices on it: --mig-strategy"])
    assert device(found, "GPU 3") == ("", ["but 1 MIG device on it: --mig-strategy"])
    assert device(found, "GPU 6") == ("", ["MIG is enabled, and there are no MIG devices"])
    assert device(found, "MIG device 0:0") == (
        "nvidia.com/mig-3g.20gb",
        ["named nvidia.com/mig-3g.20gb: --mig-strategy"],
    )
    none = explain("dgx-a100-mig", "", environ={"MIG_STRATEGY": "none"})
    assert device(none, "MIG device 0:0") == (
        "",
        ["not offered with the MIG strategy none: MIG_STRATEGY"],
    )
    default = explain("dgx-a100-mig")
    assert device(default, "MIG device 0:0")[1] == [
        "not offered with the MIG strategy none: default of --mig-strategy"
    ]


def test_names_of_the_file_and_renaming_by_entry(explain) -> None:
    found = explain(
        "dgx-a100",
        """\
        extensions: {honourNames: true}
        resources:
          gpus:
            - {pattern: "*A100*", name: a100}
        sharing:
          timeSlicing:
            resources:
              - {name: a100, replicas: 2, rename: half, devices: [0]}
        """,
    )
    assert device(found, "GPU 0") == (
        "nvidia.com/half",
        [
            "named nvidia.com/a100: resources.gpus[0]:4",
            "time-sliced, 2 replicas: sharing.timeSlicing.resources[0]:8",
            (
                "renamed from nvidia.com/a100 to nvidia.com/half: "
                "sharing.timeSlicing.resources[0].rename:8"
            ),
        ],
    )
    assert device(found, "GPU 1") == (
        "nvidia.com/a100",
        ["named nvidia.com/a100: resources.gpus[0]:4"],
    )


def test_entries_of_our_own_extensions(explain) -> None:
    text = """\
        extensions:
          sharing:
            - {gpus: [0], strategy: exclusive, rename: whole}
            - {gpus: [1], strategy: mps, replicas: 3, rename: mps}
            - {strategy: time-slicing, replicas: 2}
        """
    found = explain("dgx-a100", text, "mps=1", environ={"MPS_ROOT": "/run/mps"})

    assert device(found, "GPU 0")[1][1:] == [
        "exclusive: extensions.sharing[0]:3",
        "renamed to nvidia.com/whole: extensions.sharing[0].rename:3",
    ]
    assert device(found, "GPU 1")[1][1] == "shared through MPS, 3 replicas: extensions.sharing[1]:4"
    assert because(found, "nvidia.com/mps")[-1] == (
        "a container may ask for 1 replica only: default of failRequestsGreaterThanOne with mps"
    )
    (answer,) = found.answers
    parts = {(part.kind, part.name): (part.value, str(part.cause)) for part in answer.parts}
    assert parts["mount", "/mps/nvidia.com/mps/pipe"][0] == "/run/mps/nvidia.com/mps/pipe"
    assert parts["mount", "/dev/shm"][1].startswith("extensions.sharing")
    assert parts["variable", "CUDA_MPS_PIPE_DIRECTORY"][1].startswith("extensions.sharing")


def test_a_node_that_cannot_be_served_says_why(explain) -> None:
    found = explain("dgx-a100-mig", "flags: {migStrategy: single}")

    assert not found.resources
    assert found.problems[0].startswith("the plugin offers nothing: the MIG strategy 'single'")
    assert device(found, "GPU 2") == ("", ["the node cannot be served as configured"])


@pytest.mark.parametrize(
    ("profile", "first"),
    [("jetson-orin", "GPU 0"), ("no-gpu", None), ("t4x4", "GPU 0")],
)
def test_other_platforms(explain, profile: str, first: str | None) -> None:
    found = explain(profile, "", "gpu=1")

    assert next((d.what for d in found.devices), None) == first
    assert (found.answers[0].problem == "") == (first is not None)


def test_without_a_driver_there_is_nothing_to_explain(explain) -> None:
    with pytest.raises(InitError):
        explain("no-driver")


def test_cdi_names_have_their_strategy(explain) -> None:
    text = "flags: {plugin: {deviceListStrategy: cdi-annotations, deviceIDStrategy: index}}"

    found = explain("t4x4", text, "gpu=2")

    assert [name.name for name in found.cdi] == [
        f"k8s.device-plugin.nvidia.com/gpu={number}" for number in range(4)
    ]
    assert [cause.by for cause in found.cdi_causes] == [
        "flags.plugin.deviceListStrategy",
        "flags.plugin.deviceIDStrategy",
    ]
    (answer,) = found.answers
    (annotation,) = answer.parts
    assert annotation.kind == "annotation"
    assert not explain("t4x4").cdi


def test_an_answer_has_everything_that_a_container_gets(explain) -> None:
    found = explain(
        "dgx-a100",
        "flags: {gdsEnabled: true, plugin: {passDeviceSpecs: true, deviceListStrategy: [envvar, volume-mounts, cdi-cri]}}",
        "gpu=2",
        "gpu=9",
        "gpus=1",
    )
    answer, many, unknown = found.answers
    assert len(answer.ids) == 2
    assert {part.kind for part in answer.parts} == {
        "variable",
        "mount",
        "device node",
        "CDI device",
    }
    assert {part.name for part in answer.parts if part.kind == "variable"} == {
        "NVIDIA_GDS",
        "NVIDIA_VISIBLE_DEVICES",
    }
    assert all(part.cause.place is not None for part in answer.parts)
    assert answer.note.startswith("CDI names of GDRCopy, GDS and MOFED are not known here")
    assert many.problem.startswith("the node has 8 of nvidia.com/gpu, fewer than 9")
    assert unknown.problem.startswith("the node has no resource nvidia.com/gpus")


def test_more_than_one_replica_is_refused_as_the_plugin_does(explain) -> None:
    text = """\
        sharing:
          timeSlicing:
            failRequestsGreaterThanOne: true
            resources: [{name: gpu, replicas: 2}]
        """
    (answer,) = explain("t4x4", text, "gpu=2").answers

    assert "at most 1 replica may be asked for" in answer.problem


def test_labels_name_the_line_that_shapes_them(explain) -> None:
    text = SHARED.replace("    renameByDefault: true\n", "")
    labels = explain("dgx-a100", text).labels

    rows = {row.key: row.source for row in labels.rows}
    assert "-SHARED since it is shared without another name: time-sliced" in rows["gpu.product"]
    assert "sharing.timeSlicing.resources[0] (" in rows["gpu.replicas"]
    assert ".yaml:5)" in rows["gpu.sharing-strategy"]
    strategy = explain("dgx-a100-mig", "", "--mig-strategy=mixed").labels
    rows = {row.key: row.source for row in strategy.rows}
    assert "--mig-strategy" in rows["mig.strategy"]


def test_labels_that_cannot_be_made_are_a_problem(explain) -> None:
    found = explain("t4x4", "", environ={"GFD_MIG_STRATEGY": "x"})

    assert found.labels is None
    assert any(problem.startswith("no labels: GFD_MIG_STRATEGY") for problem in found.problems)


@pytest.mark.parametrize(
    ("things", "resources", "devices", "labels"),
    [
        (["nvidia.com/gpu.shared"], 1, 0, 0),
        (["gpu.shared"], 1, 0, 0),
        (["3"], 0, 1, 0),
        (["GPU 3"], 0, 1, 0),
        (["gpu-3"], 0, 1, 0),
        (["gpu.product"], 0, 0, 1),
        (["nvidia.com/gpu.product", "3"], 0, 1, 1),
        ([], 1, 8, 20),
    ],
)
def test_one_thing_alone(
    explain, things: list[str], resources: int, devices: int, labels: int
) -> None:
    found = narrow(explain("dgx-a100", SHARED, "--device-list-strategy=cdi-cri"), things)

    assert len(found.resources) == resources
    assert len(found.devices) == devices
    assert found.labels is not None
    assert len(found.labels.rows) == labels or (labels == 20 and len(found.labels.rows) > labels)


def test_a_thing_that_is_not_there_is_an_error_that_names_the_others(explain) -> None:
    with pytest.raises(ConfigError, match=r"there are: nvidia\.com/gpu, GPU 0"):
        narrow(explain("dgx-a100"), ["gpus"])


def test_a_uuid_is_a_thing(explain) -> None:
    found = explain("dgx-a100-mig", "", "--mig-strategy=mixed")
    uuid = next(d.id for d in found.devices if d.what == "MIG device 0:1")

    assert [d.what for d in narrow(found, [uuid]).devices] == ["MIG device 0:1"]
    assert [d.what for d in narrow(found, ["0:1"]).devices] == ["MIG device 0:1"]
    assert [d.what for d in narrow(found, ["mig 0:1"]).devices] == ["MIG device 0:1"]


def test_what_another_configuration_changes(explain) -> None:
    before = explain("dgx-a100", SHARED, "gpu.shared=1", "--no-timestamp")
    after = explain("dgx-a100", "version: v1", "gpu.shared=1", "--no-timestamp")

    found = {(d.kind, d.name): d for d in compare(before, after)}
    assert found["resource", "nvidia.com/gpu"].change is Change.APPEARS
    assert found["resource", "nvidia.com/gpu.shared"].change is Change.VANISHES
    assert "stay pending" in found["resource", "nvidia.com/gpu.shared"].effect
    assert found["device", "GPU 3"].after == "nvidia.com/gpu"
    assert found["label", "nvidia.com/gpu.replicas"].before == "4"
    assert "no resource" in found["request", "nvidia.com/gpu.shared=1"].after
    assert compare(before, before) == ()


@pytest.mark.parametrize("text", ["", "=1", "gpu=0", "gpu=x", "gpu=-1", "gpu=1234567"])
def test_requests_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="RESOURCE=NUMBER"):
        parse_request(text)


def test_requests_may_leave_out_prefix_and_number() -> None:
    assert parse_request("gpu") == parse_request("nvidia.com/gpu=1")


def test_the_json_form_is_complete(explain) -> None:
    data = explain("dgx-a100", SHARED, "gpu.shared=1").to_dict()

    assert json.loads(json.dumps(data)) == data
    assert list(data) == [
        "node",
        "configFile",
        "resources",
        "devices",
        "cdi",
        "labels",
        "requests",
        "warnings",
        "problems",
    ]
    assert data["resources"][0]["because"][1] == {
        "what": "time-sliced, 4 replicas",
        "by": "sharing.timeSlicing.resources[0]",
        "file": data["configFile"],
        "line": 6,
    }


def test_the_end_of_an_mps_daemon_is_told(explain) -> None:
    mps = "sharing: {mps: {resources: [{name: gpu, replicas: 4}]}}"
    before = explain("t4x4", mps, "--mps-root=/m", "--no-timestamp")
    after = explain("t4x4", mps.replace("mps", "timeSlicing"), "--no-timestamp")

    change, *_ = compare(before, after)
    assert (change.before, change.after) == (
        "16 = 4 GPUs x 4 replicas, shared through MPS",
        "16 = 4 GPUs x 4 replicas, time-sliced",
    )
    assert change.effect.startswith("its MPS daemon ends")
