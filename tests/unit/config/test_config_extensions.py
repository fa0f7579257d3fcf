"""``extensions``: what it may hold, and what is said of what it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.model import (
    Config,
    Extensions,
    GpuSelection,
    GpuSharing,
    HealthSettings,
    MonitorFailure,
    RecoverySettings,
    SharingStrategy,
    XidAction,
)
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.render import render
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.errors import ConfigError

UUID = "b2f4a1c6-0000-4000-8000-0123456789ab"
RULE = (
    "allowed: indices of GPUs, indices of MIG devices as 0:1, UUIDs, and patterns of models "
    "such as *A100*"
)
DURATIONS = "allowed: such as 30s, 5m or 1h30m, or infinite"


def extensions(text: str) -> Extensions:
    """What the lines below ``extensions`` mean; there must be nothing odd about them."""
    loaded = load_text(below("extensions", text))
    assert not loaded.warnings
    return loaded.config.extensions


def below(key: str, text: str) -> str:
    return f"{key}:\n" + "".join(f"  {line}\n" for line in text.splitlines())


def sharing(*entries: str) -> str:
    return "sharing:\n" + "".join(f"- {{{entry}}}\n" for entry in entries)


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_text(below("extensions", text))
    return str(caught.value)


def warnings(text: str) -> list[str]:
    return [str(warning) for warning in load_text(below("extensions", text)).warnings]


@pytest.mark.parametrize(
    "text", ["", "honourNames:\ngpus:\nsharing:\nhealth:\n", "gpus: {}\nsharing: []\nhealth: {}\n"]
)
def test_nothing_is_said(text: str) -> None:
    assert extensions(text) == Extensions()
    assert "extensions" not in json.loads(render(load_text(below("extensions", text)).config))


def test_all_that_can_be_said() -> None:
    text = f"""
        honourNames: true
        gpus:
          include: [0, "1", 007, "0:01", GPU-{UUID.upper()}, MIG-{UUID}, "*A100*", NVIDIA H100]
          exclude: [3]
        sharing:
        - gpus: [0, "*T4*"]
          strategy: exclusive
          rename: whole
        - strategy: time-slicing
          mig: ["1g.*"]
          replicas: 4
          failRequestsGreaterThanOne: true
        - strategy: mps
          replicas: 10
          rename: nvidia.com/gpu.mps
        health:
          xids: {{"79": unhealthy-until-reset, 94: warn, 0x1f: ignore, "48": unhealthy}}
          monitorFailure: unmonitored
          recovery: {{enabled: true, quietPeriod: 90s}}
    """
    wanted = Extensions(
        honour_names=True,
        gpus=GpuSelection(
            include=(
                *("0", "1", "7", "0:1"),
                f"GPU-{UUID.upper()}",
                f"MIG-{UUID}",
                "*A100*",
                "NVIDIA H100",
            ),
            exclude=("3",),
        ),
        sharing=(
            GpuSharing(SharingStrategy.NONE, ("0", "*T4*"), rename="nvidia.com/whole"),
            GpuSharing(
                SharingStrategy.TIME_SLICING,
                mig=("1g.*",),
                replicas=4,
                fail_requests_greater_than_one=True,
            ),
            GpuSharing(SharingStrategy.MPS, replicas=10, rename="nvidia.com/gpu.mps"),
        ),
        health=HealthSettings(
            {
                79: XidAction.UNHEALTHY_UNTIL_RESET,
                94: XidAction.WARN,
                31: XidAction.IGNORE,
                48: XidAction.UNHEALTHY,
            },
            MonitorFailure.UNMONITORED,
            RecoverySettings(enabled=True, quiet_period=90 * 10**9),
        ),
    )
    got = extensions(text)
    assert got == wanted
    assert all(type(action) is XidAction for action in got.health.xids.values())
    assert type(got.health.monitor_failure) is MonitorFailure


def test_the_printed_form_is_one_that_can_be_read_again() -> None:
    text = """
        honourNames: true
        gpus: {include: ["0", "*"], exclude: ["3"]}
        sharing:
        - {gpus: ["0"], strategy: exclusive, rename: nvidia.com/a}
        - {mig: ["1g*"], strategy: time-slicing, replicas: 2, failRequestsGreaterThanOne: false}
        health:
          xids: {"79": warn}
          monitorFailure: unhealthy
          recovery: {enabled: false, quietPeriod: 1m0s}
    """
    config = load_text(below("extensions", text)).config
    printed: dict[str, Any] = json.loads(render(config))
    again = load_text(json.dumps({"extensions": printed["extensions"]})).config
    assert again.extensions == config.extensions
    assert printed["extensions"]["sharing"][0] == {
        "gpus": ["0"],
        "strategy": "exclusive",
        "rename": "nvidia.com/a",
    }


def test_every_program_takes_it() -> None:
    text = "extensions: {gpus: {exclude: [0]}}"
    for program in (Program.GPU_FEATURE_DISCOVERY, Program.MPS_CONTROL_DAEMON):
        assert load_text(text, program=program).config.extensions.gpus.exclude == ("0",)


def test_a_duration_may_be_endless() -> None:
    text = "health: {recovery: {quietPeriod: infinite}}"
    assert extensions(text).health.recovery.quiet_period == INFINITE


def test_keys_are_found_in_any_case_as_elsewhere() -> None:
    assert extensions("honournames: true").honour_names
    assert extensions("Sharing: [{Strategy: exclusive}]").sharing


SHARING_ERRORS = {
    "": '"strategy" is missing (allowed: exclusive, time-slicing, mps)',
    "strategy: mps": '"replicas" is missing (mps needs a number of 2 or more)',
    "strategy: time-slicing, replicas: ~": (
        '"replicas" is missing (time-slicing needs a number of 2 or more)'
    ),
    "strategy: exclusive, replicas: 2": "exclusive devices have no replicas (leave replicas out)",
    "strategy: exclusive, failRequestsGreaterThanOne: false": (
        "failRequestsGreaterThanOne is about replicas, which exclusive devices do not have "
        "(leave it out)"
    ),
    "strategy: mps, replicas: 2, mig: ['*']": (
        "MPS cannot be used with MIG devices (allowed with mig: exclusive, time-slicing)"
    ),
}


@pytest.mark.parametrize("entry", SHARING_ERRORS)
def test_what_does_not_go_together(entry: str) -> None:
    text = sharing("strategy: exclusive, gpus: [0]", entry)
    assert error(text) == f"f.yaml:4: extensions.sharing[1]: {SHARING_ERRORS[entry]}"


ERRORS = {
    "honourNames: 1": (
        "honourNames: the number 1 is not a boolean (allowed: true, false, without quotes)"
    ),
    "gpus: [0]": "gpus: a list where a mapping belongs",
    "gpus: {include: []}": (
        "gpus.include: the list is empty (leave the key out to select everything)"
    ),
    "gpus: {include: }": "gpus.include: null where a list of GPUs belongs",
    "gpus: {exclude: 3}": "gpus.exclude: the number 3 where a list of GPUs belongs",
    "gpus: {exclude: [0, -1]}": f"gpus.exclude[1]: the number -1 selects no GPU ({RULE})",
    "gpus: {exclude: [1.5]}": f"gpus.exclude[0]: the number 1.5 selects no GPU ({RULE})",
    "gpus: {exclude: [true]}": f"gpus.exclude[0]: the boolean true selects no GPU ({RULE})",
    "gpus: {exclude: [[0]]}": f"gpus.exclude[0]: a list selects no GPU ({RULE})",
    "gpus: {exclude: [0-3]}": (
        f'gpus.exclude[0]: the text "0-3" is neither a reference nor a pattern ({RULE})'
    ),
    "gpus: {exclude: ['']}": (
        f'gpus.exclude[0]: the text "" is neither a reference nor a pattern ({RULE})'
    ),
    "gpus: {exclude: [GPU-1234]}": (f'gpus.exclude[0]: the text "GPU-1234" is not a UUID ({RULE})'),
    "sharing: {strategy: mps}": "sharing: a mapping where a list of mappings belongs",
    "sharing: [mps]": 'sharing[0]: the text "mps" where a mapping belongs',
    "sharing: [{strategy: none}]": (
        'sharing[0].strategy: the text "none" is not allowed '
        "(allowed: exclusive, time-slicing, mps)"
    ),
    "sharing: [{strategy: }]": (
        "sharing[0].strategy: null is not allowed (allowed: exclusive, time-slicing, mps)"
    ),
    "sharing: [{strategy: mps, replicas: 0}]": (
        "sharing[0].replicas: 0 is too small (allowed: whole numbers without quotes, 1 or more)"
    ),
    "sharing: [{strategy: time-slicing, replicas: 1}]": (
        "sharing[0]: replicas: 1 is too small "
        "(time-slicing needs a number of 2 or more; mps allows 1)"
    ),
    "sharing: [{strategy: exclusive, mig: []}]": (
        "sharing[0].mig: the list is empty (leave the key out to select everything)"
    ),
    "sharing: [{strategy: exclusive, mig: [1]}]": (
        "sharing[0].mig[0]: the number 1 is not a text "
        "(allowed: texts; put numbers and booleans in quotes)"
    ),
    "health: {xids: [79]}": "health.xids: a list where a mapping of numbers to words belongs",
    "health: {xids: {all: warn}}": (
        'health.xids.all: "all" is not a number (allowed: 0, 1, 2 and so on)'
    ),
    "health: {xids: {79: panic}}": (
        'health.xids.79: the text "panic" is not allowed '
        "(allowed: ignore, warn, unhealthy, unhealthy-until-reset)"
    ),
    "health: {monitorFailure: healthy}": (
        'health.monitorFailure: the text "healthy" is not allowed (allowed: unhealthy, unmonitored)'
    ),
    "health: {recovery: true}": "health.recovery: the boolean true where a mapping belongs",
    "health: {recovery: {quietPeriod: 300}}": (
        f"health.recovery.quietPeriod: the number 300 is a duration without a unit ({DURATIONS})"
    ),
    "health: {recovery: {quietPeriod: -5m}}": (
        f'health.recovery.quietPeriod: the text "-5m" is a negative duration ({DURATIONS})'
    ),
    "health: {recovery: {quietPeriod: 5 min}}": (
        f'health.recovery.quietPeriod: "5 min" is a duration with an unknown unit ({DURATIONS})'
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text: str) -> None:
    assert error(text) == f"f.yaml:2: extensions.{ERRORS[text]}"


def test_it_is_a_mapping() -> None:
    with pytest.raises(ConfigError, match=r"^f\.yaml:1: extensions: the number 1 where a mapping"):
        load_text("extensions: 1")


@pytest.mark.parametrize("number", ["-1", "079", "1.5", "9" * 20, "9" * 1000])
def test_xids_are_plain_numbers(number: str) -> None:
    assert "is not a number" in error(f'health: {{xids: {{"{number}": warn}}}}')


WARNINGS = {
    "later: {on: true}": ["f.yaml:2: extensions.later: unknown key, ignored"],
    "sharing: [{strategy: exclusive, name: a}]": [
        "f.yaml:2: extensions.sharing[0].name: unknown key, ignored (did you mean rename?)"
    ],
    "honorNames: true": [
        "f.yaml:2: extensions.honorNames: unknown key, ignored (did you mean honourNames?)"
    ],
    "recovery: {enabled: true}": [
        "f.yaml:2: extensions.recovery: unknown key, ignored (it belongs to extensions.health)"
    ],
    "timeSlicing: {}": [
        "f.yaml:2: extensions.timeSlicing: unknown key, ignored (it belongs to sharing)"
    ],
    "health: {xids: {79: warn, '79': ignore}}": [
        "f.yaml:2: extensions.health.xids.79: given more than once; the last one counts"
    ],
    sharing("strategy: exclusive, gpus: ['*', 0]", "strategy: exclusive, mig: ['*']"): [
        (
            "f.yaml: extensions.sharing[1]: without effect after extensions.sharing[0], "
            "which selects every device"
        )
    ],
}


@pytest.mark.parametrize("text", WARNINGS)
def test_warnings(text: str) -> None:
    assert warnings(text) == WARNINGS[text]


def test_a_key_of_ours_in_the_wrong_place_is_led_home() -> None:
    text = "honourNames: true\nflags: {monitorFailure: unhealthy}\n"
    assert [str(warning) for warning in load_text(text).warnings] == [
        "f.yaml:1: honourNames: unknown key, ignored (it belongs to extensions)",
        "f.yaml:2: flags.monitorFailure: unknown key, ignored (it belongs to extensions.health)",
    ]


def validated(text: str, *argv: str) -> Config:
    config = load_text(text, *argv).config
    validate_plugin(config, lambda: True)
    return config


MPS = "extensions: {sharing: [{gpus: [0], strategy: mps, replicas: 2}]}"


def test_mps_on_one_gpu_needs_the_directory_of_the_daemon() -> None:
    with pytest.raises(ConfigError) as caught:
        validated(MPS)
    assert str(caught.value).startswith("mps-root: required by extensions.sharing, but empty (")
    assert validated(MPS, "--mps-root=/run/nvidia/mps").uses_mps()


def test_mps_on_one_gpu_goes_with_mig_devices_on_others() -> None:
    validated(MPS, "--mps-root=/run/nvidia/mps", "--mig-strategy=mixed")


@pytest.mark.parametrize(
    ("text", "uses_mps"),
    [
        ("", False),
        (MPS, True),
        (MPS.replace("mps", "time-slicing"), False),
        ("sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}", True),
        ("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}", False),
    ],
)
def test_whether_any_device_may_be_shared_through_mps(text: str, *, uses_mps: bool) -> None:
    assert load_text(text).config.uses_mps() is uses_mps
