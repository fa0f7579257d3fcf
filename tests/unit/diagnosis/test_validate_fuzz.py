"""Whatever a file holds, it is checked without a traceback, and lines are lines of the file."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.diagnosis import CONFIG_MAP, PLUGIN, RBAC

from gpu_device_plugin.config.decode import decode
from gpu_device_plugin.config.diagnostics import Report, at_once
from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.diagnosis.configurations import READERS, SOMEWHERE
from gpu_device_plugin.diagnosis.files import Text
from gpu_device_plugin.diagnosis.findings import Severity
from gpu_device_plugin.diagnosis.validate import Result, validate
from gpu_device_plugin.errors import ConfigError

CONFIGURATION = """\
version: v1
flags:
  migStrategy: mixed
  plugin:
    deviceListStrategy: [envvar, cdi-cri]
    deviceIDStrategy: uuid
resources:
  gpus:
    - {pattern: "*A100*", name: a100}
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
      - name: nvidia.com/gpu
        replicas: 4
        devices: [0, 1]
      - name: nvidia.com/mig-1g.5gb
        replicas: 2
imex: {channelIDs: [0]}
extensions:
  honourNames: true
  gpus: {exclude: [3]}
  sharing:
    - {strategy: mps, replicas: 2, gpus: [0]}
    - {strategy: exclusive}
  health:
    xids: {79: ignore}
    recovery: {enabled: true, quietPeriod: 5m}
  mps:
    resources:
      - {name: gpu, memoryLimit: 1Gi, memoryLimitByGpu: {0: 2Gi}}
"""
MANIFESTS = CONFIG_MAP + RBAC + PLUGIN
WORDS = st.sampled_from(
    [
        *("null", "[]", "{}", "5", "-1", "4.5", "true", '"x"', "x", "a: b", "- c", "&a", "*a"),
        *("|", ">", "<<", "---", ":", "-", " ", "\t", "  ", "\n", "{", "}", "[", "]", "'", '"'),
        *(
            "!!int",
            "!!binary",
            "\u2028",
            "\x85",
            "\x00",
            "\xe9",
            "$(X)",
            "{{ x }}",
            "#",
            "%",
            "=",
            ",",
        ),
    ]
)


@st.composite
def mutations(draw: st.DrawFn, text: str) -> bytes:
    """The text with words in place of others, and lines left out, doubled or moved to and fro."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1)) if lines else 0
        line = lines[at] if lines else ""
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(len(line), start + 12)))
        changes = [
            [line[:start] + draw(WORDS) + line[end:]],
            [line, line],
            [],
            ["  " + line],
            [line.removeprefix("  ")],
        ]
        lines[at : at + 1] = draw(st.sampled_from(changes))
    return "".join(lines).encode("utf-8", "surrogatepass")


def check(data: bytes) -> Result:
    result = validate([Text("f.yaml", data)])
    # YAML has more breaks of lines than editors.
    count = len(data.decode("utf-8", "replace").splitlines())
    for finding in result.findings:
        assert 0 <= finding.place.line <= count + 1
        assert str(finding).isprintable()
        assert finding.place.file == "f.yaml"
    return result


@pytest.mark.parametrize("text", [CONFIGURATION, MANIFESTS], ids=["configuration", "manifests"])
def test_what_is_mutated_is_well(text: str) -> None:
    assert not check(text.encode()).findings


def first_error(program: Program, data: bytes) -> ConfigError | None:
    """What the program says at its start."""
    parsed = parse(program, ["--config-file=f.yaml"], SOMEWHERE)
    try:
        loaded = load(parsed, lambda _: data)
        if program is Program.DEVICE_PLUGIN:
            validate_plugin(loaded.config, lambda: True, loaded.origins)
    except ConfigError as error:
        return error
    return None


@settings(max_examples=200, deadline=None)
@given(mutations(CONFIGURATION))
def test_mutated_configurations_have_every_error_of_a_single_load(data: bytes) -> None:
    result = check(data)
    told = {
        (f"{finding.place}: {finding.message}", finding.hint)
        for finding in result.findings
        if finding.severity is Severity.ERROR
    }
    for program in READERS:
        error = first_error(program, data)
        assert error is None or not result.configurations or (error.message, error.hint) in told


def decoded(data: bytes, report: Report) -> object:
    """The values, or the error that ends it."""
    try:
        return decode(data, "f.yaml", report).values
    except ConfigError as error:
        return str(error)


@settings(max_examples=200, deadline=None)
@given(mutations(CONFIGURATION))
def test_a_load_that_goes_on_begins_with_the_error_of_one_that_does_not(data: bytes) -> None:
    errors: list[ConfigError] = []
    collected = decoded(data, errors.append)

    assert decoded(data, at_once) == (str(errors[0]) if errors else collected)


@settings(max_examples=200, deadline=None)
@given(mutations(MANIFESTS))
def test_mutated_manifests(data: bytes) -> None:
    check(data)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.binary(max_size=80), st.text(max_size=80).map(str.encode)))
def test_anything(data: bytes) -> None:
    check(data)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_documents_does_not_matter(seed: int) -> None:
    documents = [d for d in MANIFESTS.split("---\n") if d.strip()]
    random.Random(seed).shuffle(documents)

    assert not check("---\n".join(documents).encode()).findings
