"""Configurations of their own: every problem, at its line."""

from __future__ import annotations

import pytest
from support.diagnosis import findings_of, lines_of, result_of

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.findings import Severity

MANY = """\
version: v2
flags:
  migStrategy: mxied
  renameByDefault: true
  plugin:
    deviceIDStrategy: 7
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: 1
      - name: nvidia.com/GPU
        replicas: "4"
      - replica: 3
extensions:
  gpus: {exclude: [0, "", GPU-7]}
  health:
    xids: {a: ignore, 79: drop}
  mps:
    resources:
      - {name: gpu, memoryLimitByGpu: {x: 1Gi, 0: 1Zi}}
imex: {channelIDs: [a, b]}
"""


def test_every_problem_is_told_with_its_line_and_key() -> None:
    found = [(f.severity, f.place.line, f.place.path) for f in findings_of(MANY)]

    error = Severity.ERROR
    assert found == [
        (error, 1, "version"),
        (error, 3, "flags.migStrategy"),
        (error, 4, "flags.renameByDefault"),
        (error, 6, "flags.plugin.deviceIDStrategy"),
        (error, 11, "sharing.timeSlicing.resources[0].replicas"),
        (error, 12, "sharing.timeSlicing.resources[1].name"),
        (error, 13, "sharing.timeSlicing.resources[1].replicas"),
        (error, 14, "sharing.timeSlicing.resources[2]"),
        (error, 14, "sharing.timeSlicing.resources[2]"),
        (error, 14, "sharing.timeSlicing.resources[2].replica"),
        (error, 16, "extensions.gpus.exclude[1]"),
        (error, 16, "extensions.gpus.exclude[2]"),
        (error, 18, "extensions.health.xids.a"),
        (error, 18, "extensions.health.xids.79"),
        (error, 21, "extensions.mps.resources[0].memoryLimitByGpu.x"),
        (error, 21, "extensions.mps.resources[0].memoryLimitByGpu.0"),
        (error, 22, "imex.channelIDs[0]"),
        (error, 22, "imex.channelIDs[1]"),
    ]


def test_keys_one_level_too_high_are_errors_with_the_place_where_they_belong() -> None:
    """Field report 1433."""
    text = "flags: {migStrategy: none, renameByDefault: true, failRequestsGreaterThanOne: false}"

    home = "unknown key, ignored (it belongs to sharing.timeSlicing or sharing.mps)"
    assert lines_of(text) == [
        f"error: 0.yaml:1: flags.failRequestsGreaterThanOne: {home}",
        f"error: 0.yaml:1: flags.renameByDefault: {home}",
    ]
    assert not result_of(text).is_well(strict=False)


@pytest.mark.parametrize("text", ["", "version: v1\n", "flags: null\n", "# nothing\n", "{}"])
def test_what_the_programs_take_is_well(text: str) -> None:
    result = result_of(text)

    assert result.findings == ()
    assert result.configurations == 1
    assert result.is_well(strict=True)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("version: v2\n", "0.yaml:1: version: "),
        ("flags:\n\tmigStrategy: none\n", "0.yaml:2: not YAML: "),
        ("flags: [1]\n", "0.yaml:1: flags: a list where a mapping belongs"),
        ("- flags\n", "0.yaml:1: a list where a mapping belongs"),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 1}]}}", "1 is too small"),
        ("sharing: {mps: {resources: [{name: gpu, replicas: null}]}}", "null is not a whole"),
    ],
)
def test_known_mistakes_are_one_line_each(text: str, line: str) -> None:
    """Field reports 397, 338 and 1548."""
    (found,) = lines_of(text)

    assert line in found
    assert "\n" not in found


def test_what_one_program_takes_and_another_does_not_names_the_latter() -> None:
    text = "flags: {deviceDiscoveryStrategy: vfio}"

    (found,) = findings_of(text)
    assert found.programs == (Program.DEVICE_PLUGIN,)
    assert "[nvidia-device-plugin]" in str(found)
    assert not findings_of(text, programs=(Program.GPU_FEATURE_DISCOVERY,))


def test_everybody_refusing_a_value_names_nobody() -> None:
    (found,) = findings_of("flags: {migStrategy: mxied}")

    assert found.programs == ()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{name: nvidia.com/gpus, replicas: 2}", "did you mean nvidia.com/gpu?"),
        ("{name: nvidia.com/tesla, replicas: 2}", "there are nvidia.com/gpu and those of MIG"),
        ("{name: nvidia.com/mig-1g.5gb, replicas: 2}", "it needs migStrategy: mixed"),
    ],
)
def test_a_resource_that_no_node_has_is_a_warning(entry: str, message: str) -> None:
    text = f"""\
        flags: {{migStrategy: none}}
        sharing:
          timeSlicing:
            resources:
              - {entry}
        """
    (found,) = findings_of(text)

    assert found.severity is Severity.WARNING
    assert found.place.line == 5
    assert message in str(found)
    assert result_of(text).is_well(strict=False)
    assert not result_of(text).is_well(strict=True)


def test_resources_that_the_strategy_or_the_file_makes_are_no_mistake() -> None:
    assert not lines_of("sharing: {timeSlicing: {resources: [{name: mig-1g.5gb, replicas: 2}]}}")
    assert not lines_of(
        """\
        extensions: {honourNames: true}
        resources: {gpus: [{pattern: "*A100*", name: a100}]}
        sharing: {timeSlicing: {resources: [{name: a100, replicas: 2}]}}
        """
    )


def test_sharing_a_resource_twice_and_too_many_clients_are_warnings() -> None:
    text = """\
        sharing:
          mps:
            resources:
              - {name: gpu, replicas: 2}
              - {name: gpu, replicas: 60}
        """
    assert [line.split(": ", 3)[1:3] for line in lines_of(text)] == [
        ["0.yaml:5", "sharing.mps.resources[1]"],
        ["0.yaml:5", "sharing.mps.resources[1].replicas"],
    ]


def test_warnings_of_the_programs_get_the_line_of_their_section() -> None:
    text = """\
        resources:
          gpus: [{pattern: "*", name: all}]
        sharing:
          mps: {resources: [{name: gpu, replicas: 2}]}
          timeSlicing: {resources: [{name: gpu, replicas: 2, rename: half, devices: 1}]}
        """
    found = findings_of(text)

    assert {f.severity for f in found} == {Severity.WARNING}
    assert {(f.place.line, f.place.path) for f in found} == {
        (1, "resources"),
        (5, "sharing.timeSlicing"),
    }


def test_a_file_of_thousands_of_mistakes_is_told_in_full_up_to_a_limit() -> None:
    text = "flags:\n" + "".join(f"  q{number}z: 1\n" for number in range(1100))

    assert len(findings_of(text)) == 1000


def test_entries_that_are_wrong_do_not_move_warnings_to_others() -> None:
    text = """\
        extensions:
          sharing:
            - {strategy: nothing}
            - {strategy: exclusive}
            - {strategy: exclusive, gpus: [0]}
        """
    assert [f.place.line for f in findings_of(text)] == [3]


def test_several_documents_and_keys_given_twice_are_told() -> None:
    lines = lines_of("flags: {}\nflags: {}\n---\nflags: {}\n")

    assert [line.partition("0.yaml:")[2] for line in lines] == [
        "2: flags: given more than once; the last one counts",
        "3: only the first document counts; the rest is ignored",
    ]


def test_no_more_errors_than_a_limit_are_told() -> None:
    items = ", ".join(["-1"] * 1200)

    found = findings_of(f"extensions: {{gpus: {{include: [{items}]}}}}")
    assert [f.severity for f in found].count(Severity.ERROR) == 1000
    assert found[0].message == "there may be more errors than the 1000 that are told"
