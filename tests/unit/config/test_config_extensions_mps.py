"""``extensions.mps``: what it may hold, and what is said of what it may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.model_mps import MpsLimits, MpsSettings
from gpu_device_plugin.config.quantities import (
    EXAMPLES,
    MEBIBYTE,
    format_mebibytes,
    parse_mebibytes,
)
from gpu_device_plugin.config.render import render
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.errors import ConfigError

UUID = "GPU-B2F4a1c6-0000-4000-8000-0123456789ab"
SHARED = "sharing: {mps: {resources: [{name: gpu, replicas: 2}]}}\n"


def document(*entries: str) -> str:
    lines = "".join(f"    - {{{entry}}}\n" for entry in entries)
    return f"{SHARED}extensions:\n  mps:\n    resources:\n{lines}"


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_text(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "mps: ", "mps: {}", "mps: {resources: }", "mps: {resources: []}"]
)
def test_nothing_is_said(text: str) -> None:
    loaded = load_text(f"extensions: {{{text}}}")
    assert not loaded.warnings
    assert loaded.config.extensions.mps == MpsSettings()
    assert "extensions" not in json.loads(render(loaded.config))


def test_all_that_can_be_said() -> None:
    loaded = load_text(
        document(
            "name: gpu, activeThreadPercentage: 30, memoryLimit: 4Gi, "
            f"memoryLimitByGpu: {{0: 8Gi, '007': none, {UUID}: 1073741824}}",
            "name: nvidia.com/other, memoryLimit: 0",
            "name: third, activeThreadPercentage: ~, memoryLimit: ~, memoryLimitByGpu: ~",
        )
    )
    assert not loaded.warnings
    assert loaded.config.extensions.mps.resources == (
        MpsLimits("nvidia.com/gpu", 30, 4096, {"0": 8192, "7": 0, UUID: 1024}),
        MpsLimits("nvidia.com/other", None, 0),
        MpsLimits("nvidia.com/third"),
    )
    printed: dict[str, Any] = json.loads(render(loaded.config))
    assert printed["extensions"]["mps"]["resources"] == [
        {
            "name": "nvidia.com/gpu",
            "activeThreadPercentage": 30,
            "memoryLimit": "4096Mi",
            "memoryLimitByGpu": {"0": "8192Mi", "7": "none", UUID: "1024Mi"},
        },
        {"name": "nvidia.com/other", "memoryLimit": "none"},
        {"name": "nvidia.com/third"},
    ]
    again = load_text(SHARED + json.dumps({"extensions": printed["extensions"]})[1:-1])
    assert again.config.extensions == loaded.config.extensions


SIZES = f"allowed: {EXAMPLES}"
ERRORS = {
    "{}": '0]: "name" is missing',
    "{name: }": "0].name: null is not a text (allowed: texts; put numbers and booleans in quotes)",
    "{name: gpu, activeThreadPercentage: 0}": (
        "0].activeThreadPercentage: 0 is too small "
        "(allowed: whole numbers without quotes, 1 to 100)"
    ),
    "{name: gpu, activeThreadPercentage: 101}": (
        "0].activeThreadPercentage: 101 is too large "
        "(allowed: whole numbers without quotes, 1 to 100)"
    ),
    "{name: gpu, activeThreadPercentage: 33.3}": (
        "0].activeThreadPercentage: the number 33.3 is not a whole number "
        "(allowed: whole numbers without quotes, 1 to 100)"
    ),
    "{name: gpu, memoryLimit: much}": (
        f'0].memoryLimit: the text "much" is not a size of memory ({SIZES})'
    ),
    "{name: gpu, memoryLimit: -1}": f"0].memoryLimit: the number -1 is not a size of memory ({SIZES})",
    "{name: gpu, memoryLimit: 4096}": f"0].memoryLimit: the number 4096 is too small ({SIZES})",
    "{name: gpu, memoryLimit: true}": (
        f"0].memoryLimit: the boolean true is not a size of memory ({SIZES})"
    ),
    "{name: gpu, memoryLimit: [1]}": f"0].memoryLimit: a list is not a size of memory ({SIZES})",
    "{name: gpu, memoryLimit: 8Ei}": f'0].memoryLimit: the text "8Ei" is too large ({SIZES})',
    "{name: gpu, memoryLimitByGpu: 8Gi}": (
        '0].memoryLimitByGpu: the text "8Gi" where a mapping of GPUs to sizes of memory belongs'
    ),
    "{name: gpu, memoryLimitByGpu: {'0:1': 8Gi}}": (
        '0].memoryLimitByGpu.0:1: "0:1" refers to no GPU (allowed: indices and UUIDs of GPUs)'
    ),
    "{name: gpu, memoryLimitByGpu: {1: }}": (
        f"0].memoryLimitByGpu.1: null is not a size of memory ({SIZES})"
    ),
}


@pytest.mark.parametrize("entry", ERRORS)
def test_errors(entry: str) -> None:
    text = f"extensions:\n  mps: {{resources: [{entry}]}}"
    assert error(text) == f"f.yaml:2: extensions.mps.resources[{ERRORS[entry]}"


def test_warnings() -> None:
    loaded = load_text(
        document(
            "name: gpu, memoryLimits: 1Gi",
            "name: other",
            "name: gpu, memoryLimitByGpu: {0: 1Gi, '0': 2Gi}",
        )
    )
    assert [str(warning) for warning in loaded.warnings] == [
        (
            "f.yaml:5: extensions.mps.resources[0].memoryLimits: unknown key, ignored "
            "(did you mean memoryLimit?)"
        ),
        (
            "f.yaml:7: extensions.mps.resources[2].memoryLimitByGpu.0: given more than once; "
            "the last one counts"
        ),
        (
            "f.yaml: extensions.mps.resources[2]: without effect after "
            "extensions.mps.resources[0], of the same name"
        ),
    ]


def test_without_mps_limits_are_without_effect() -> None:
    loaded = load_text("extensions: {mps: {resources: [{name: gpu, memoryLimit: 1Gi}]}}")
    assert [str(warning) for warning in loaded.warnings] == [
        "f.yaml: extensions.mps: without effect: nothing is shared through MPS"
    ]


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        ("none", 0),
        ("0", 0),
        ("0Gi", 0),
        ("0.0", 0),
        ("4Gi", 4096),
        ("1.5Gi", 1536),
        (".5Gi", 512),
        ("2.Gi", 2048),
        ("1G", 953),
        ("1048576", 1),
        ("2097151", 1),
        ("1049k", 1),
        ("1024Ki", 1),
        ("4e9", 3814),
        ("4E9", 3814),
        ("1E", 953674316406),
        ("7Ei", 7 << 40),
        ("9223372036854775807", (1 << 43) - 1),
    ],
)
def test_sizes(text: str, mebibytes: int) -> None:
    assert parse_mebibytes(text) == mebibytes


@pytest.mark.parametrize(
    "text",
    ["", "-1Gi", "+1Gi", "4 Gi", "4gi", "4GiB", "4K", "1m", "Gi", ".", "None", "4Gi\n", "٤Gi"],
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_mebibytes(text)


@pytest.mark.parametrize("text", ["1", "1048575", "1023Ki", "0.5Mi", "9223372036854775808", "9e99"])
def test_sizes_that_no_limit_can_have(text: str) -> None:
    with pytest.raises(ValueError, match=r"too (small|large)"):
        parse_mebibytes(text)


@given(st.integers(0, 1 << 42))
def test_the_printed_form_is_the_same_size(mebibytes: int) -> None:
    assert parse_mebibytes(format_mebibytes(mebibytes)) == mebibytes
    assert parse_mebibytes(str(mebibytes * MEBIBYTE)) == mebibytes
