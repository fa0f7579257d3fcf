"""Whether configurations work on simulated nodes."""

from __future__ import annotations

import textwrap
from functools import cache

import pytest

from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.nodes import HARDWARE, Node, check_on, open_backend, read_nodes
from gpu_device_plugin.diagnosis.sources import Source
from gpu_device_plugin.errors import UserError


@cache
def node(name: str) -> Node:
    return read_nodes([name])[0]


def found_on(profile: str, text: str) -> list[Finding]:
    source = Source("f.yaml", textwrap.dedent(text).encode())
    return list(check_on(source, [node(profile)]))


@pytest.mark.parametrize(
    ("profile", "text", "line", "message"),
    [
        ("dgx-a100-mig", "flags:\n  migStrategy: single", 2, "needs MIG devices on every GPU"),
        (
            "dgx-a100",
            "sharing:\n  mps:\n    resources:\n      - {name: gpu, replicas: 60}",
            4,
            "60 > 48",
        ),
        (
            "dgx-a100-mig",
            (
                "flags: {migStrategy: mixed}\n"
                "extensions:\n  sharing:\n    - {strategy: mps, replicas: 2}"
            ),
            4,
            "MPS cannot be used with MIG device",
        ),
        (
            "jetson-orin",
            "sharing:\n  mps:\n    resources:\n      - {name: gpu, replicas: 2}",
            4,
            "MPS cannot be used on Tegra",
        ),
    ],
)
def test_what_the_plugin_would_refuse_is_an_error_at_its_line(
    profile: str, text: str, line: int, message: str
) -> None:
    (found,) = found_on(profile, text)

    assert found.severity is Severity.ERROR
    assert found.place.line == line
    assert found.message.startswith(f"on {profile}: ")
    assert message in found.message


@pytest.mark.parametrize(
    ("profile", "text", "line", "message"),
    [
        ("dgx-a100", "extensions:\n  gpus:\n    exclude: [9]", 3, "no GPU or MIG device 9"),
        (
            "dgx-a100",
            "extensions: {honourNames: true}\nresources:\n  gpus: [{pattern: '*H100*', name: h}]",
            3,
            "'*H100*' matches no GPU (there are: NVIDIA A100-SXM4-40GB)",
        ),
        (
            "a30-mig",
            (
                "flags: {migStrategy: mixed}\nextensions: {honourNames: true}\n"
                "resources:\n  gpus: []\n  mig: [{pattern: 9g*, name: h}]"
            ),
            5,
            "'9g*' matches no MIG device",
        ),
        (
            "dgx-a100",
            (
                "flags: {migStrategy: mixed}\nsharing:\n  timeSlicing:\n    resources:\n"
                "      - {name: mig-1g.5gb, replicas: 2}"
            ),
            5,
            "the node has no resource nvidia.com/mig-1g.5gb (there are: nvidia.com/gpu)",
        ),
        (
            "no-gpu",
            "sharing:\n  timeSlicing:\n    resources:\n      - {name: gpu, replicas: 2}",
            4,
            "the node has no resource nvidia.com/gpu (there are: none)",
        ),
    ],
)
def test_what_does_nothing_there_is_a_warning_at_its_line(
    profile: str, text: str, line: int, message: str
) -> None:
    (found,) = found_on(profile, text)

    assert found.severity is Severity.WARNING
    assert found.place.line == line
    assert message in found.message


def test_a_warning_without_a_key_is_at_the_file() -> None:
    (found,) = found_on("dgx-a100-mig", "flags: {migStrategy: mixed}")

    assert (found.place.file, found.place.line) == ("f.yaml", 0)
    assert "GPU 6 has MIG enabled but no MIG devices" in found.message


def test_what_works_says_nothing_and_what_works_nowhere_is_left_to_others() -> None:
    assert not found_on("dgx-a100", "version: v1")
    assert not found_on("dgx-a100", "version: v2")
    assert not list(check_on(Source("f.yaml", b""), []))


def test_a_node_that_does_not_exist_is_an_error_that_names_the_others() -> None:
    with pytest.raises(UserError, match="dgx-a100"):
        read_nodes(["nix"])


def test_this_node_is_read_as_the_plugin_reads_it() -> None:
    assert open_backend(HARDWARE).name in {"nvml", "tegra"}
