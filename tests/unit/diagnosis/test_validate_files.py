"""Files, directories, standard input, and the forms of the result."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.diagnosis import result_of

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.console.screen import ANSI, PLAIN
from gpu_device_plugin.diagnosis import files
from gpu_device_plugin.diagnosis.files import Text, read_texts
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.nodes import check_on, read_nodes
from gpu_device_plugin.diagnosis.recognise import Kind, recognise, speaks_of_configuration
from gpu_device_plugin.diagnosis.report import github_line, render, summary
from gpu_device_plugin.diagnosis.sources import Source
from gpu_device_plugin.diagnosis.validate import validate

BAD = "flags: {migStrategy: mxied}\n"


def names(*paths: Path) -> list[str]:
    return [
        os.path.basename(text.file) if isinstance(text, Text) else str(text)
        for text in read_texts(map(str, paths))
    ]


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    data = tmp_path / "..2026"
    data.mkdir()
    (tmp_path / "..data").symlink_to("..2026")
    for name in ("shared", "tesla.v100"):
        (data / name).write_text(BAD)
        (tmp_path / name).symlink_to(f"..data/{name}")

    assert names(tmp_path) == ["shared", "tesla.v100"]


def test_directories_are_read_in_order_and_downwards(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c/d.json", "README.md", "run.sh", ".hidden.yaml", "e"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(BAD)

    assert names(tmp_path) == ["a.yml", "b.yaml", "d.json", "e"]


def test_a_directory_without_anything_to_check_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").write_text(BAD)

    result = validate(read_texts([str(tmp_path)]))

    (found,) = result.findings
    assert (found.severity, found.place.file) == (Severity.ERROR, str(tmp_path))
    assert found.message == "no file in it can be checked"
    assert "*.yaml" in found.hint
    (tmp_path / "a.yaml").write_text("version: v1\n")
    assert names(tmp_path) == ["a.yaml"]


@pytest.mark.parametrize("data", [b"", b" \n\n"])
def test_an_empty_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    (found,) = validate(read_texts(["-"])).findings

    assert (found.severity, found.place.file) == (Severity.ERROR, "<stdin>")
    assert found.message == "nothing came; has what writes it failed?"


def test_a_chart_has_to_be_rendered(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("name: x")

    (found,) = read_texts([str(tmp_path)])
    assert isinstance(found, Finding)
    assert found.severity is Severity.WARNING
    assert "helm template" in found.hint


def test_what_cannot_be_read_is_an_error_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(BAD)

    result = validate(read_texts([str(tmp_path / "no"), str(tmp_path / "a"), "\0"]))

    assert [f.message for f in result.findings][0::2] == [
        "cannot be read: No such file or directory",
        "cannot be read: embedded null byte",
    ]
    assert result.findings[1].place.path == "flags.migStrategy"


def test_a_directory_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    (found,) = read_texts([str(tmp_path)])
    assert str(found) == f"error: {tmp_path}: cannot be read: Permission denied"


def test_standard_input_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))

    result = validate(read_texts(["-"]))
    assert str(result.findings[0]).startswith("error: <stdin>:1: flags.migStrategy: ")


def test_a_file_that_is_too_large_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST", 10)
    (tmp_path / "a").write_text(BAD)

    (found,) = read_texts([str(tmp_path / "a")])
    assert isinstance(found, Finding)
    assert found.message == "the file is too large"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", Kind.CONFIGURATION),
        ("version: v1", Kind.CONFIGURATION),
        ("sharing: {}", Kind.CONFIGURATION),
        ("flags: {}", Kind.CONFIGURATION),
        ("migStrategy: none", Kind.CONFIGURATION),
        ("sharing: {\n", Kind.CONFIGURATION),
        ("flags:\n\tmigStrategy: none", Kind.CONFIGURATION),
        ("apiVersion: v1\nkind: Pod", Kind.MANIFESTS),
        ("apiVersion: v1\nkind: Pod\nmetadata: {", Kind.MANIFESTS),
        ('{"apiVersion": "v1", "kind": "Pod"}', Kind.MANIFESTS),
        ("---\n---\nkind: Pod\napiVersion: v1", Kind.MANIFESTS),
        ("config: {map: {}}\nversion: 1", Kind.VALUES),
        ("gfd: {enabled: true}\nmigStrategy: mixed", Kind.VALUES),
        ('{{ .Values.x }}: {{ include "a" . }}\nflags: {{ b }}', Kind.TEMPLATE),
        ("a: 1", Kind.UNKNOWN),
        ("- 1", Kind.UNKNOWN),
        ("a: {\n", Kind.UNKNOWN),
        ("just words", Kind.UNKNOWN),
    ],
)
def test_what_files_are(text: str, kind: Kind) -> None:
    assert recognise(Source("f", text.encode())) is kind


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("flags: {migStrategy: mixed}\n", 0),
        ("flags: {\n", 1),
        ("devicePlugin: {}\nconfig: {map: {a: 'flags: {}'}}\n", 1),
    ],
)
def test_a_text_is_parsed_once_for_all_programs_and_nodes(
    text: str, findings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = list[bytes]()

    def parse(data: bytes, **how: Any) -> Iterator[Any]:
        parsed.append(data)
        return genuine(data, **how)

    nodes = read_nodes(["t4x4", "dgx-a100"])
    genuine = yaml.parse
    monkeypatch.setattr(yaml, "parse", parse)

    result = validate([Text("f.yaml", text.encode())], fits=lambda s: check_on(s, nodes))

    assert len(result.findings) == findings
    assert len(parsed) == len(set(parsed)) > 0


def test_what_is_named_is_a_configuration_whatever_it_looks_like(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1")

    (named,) = validate(read_texts([str(file)])).findings
    assert named.message == "unknown key, ignored"
    (found,) = validate(read_texts([str(tmp_path)])).findings
    assert found.severity is Severity.NOTE


def test_templates_and_values_in_directories_are_notes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{{ .Values.x }}\n")
    (tmp_path / "b.yaml").write_text("gfd: {enabled: true}\n")

    result = validate(read_texts([str(tmp_path)]))
    assert [f.severity for f in result.findings] == [Severity.NOTE] * 2
    assert result.is_well(strict=True)


# --- Forms ---

RESULT = result_of(BAD, "sharing: {timeSlicing: {resources: [{name: gpus, replicas: 2}]}}")


def test_text_ends_with_a_summary() -> None:
    lines = render(RESULT, "text", PLAIN, strict=False).splitlines()

    assert lines == [
        """error: 0.yaml:1: flags.migStrategy: "mxied" is not allowed (allowed: none, single, mixed)""",
        (
            "warning: 1.yaml:1: sharing.timeSlicing.resources[0].name: without effect: no node has a "
            "resource nvidia.com/gpus (did you mean nvidia.com/gpu?)"
        ),
        "1 error, 1 warning in 2 configurations (2 files)",
    ]
    assert "\x1b[31merror\x1b[0m: " in render(RESULT, "text", ANSI, strict=False)


def test_json_and_yaml_say_the_same() -> None:
    data = json.loads(render(RESULT, "json", PLAIN, strict=False))

    assert yaml.safe_load(render(RESULT, "yaml", PLAIN, strict=False)) == data
    assert {key: data[key] for key in ("valid", "errors", "warnings", "notes", "checked")} == {
        "valid": False,
        "errors": 1,
        "warnings": 1,
        "notes": 0,
        "checked": {"files": 2, "configurations": 2, "containers": 0},
    }
    assert data["findings"][0] == {
        "severity": "error",
        "file": "0.yaml",
        "line": 1,
        "object": None,
        "key": "flags.migStrategy",
        "message": '"mxied" is not allowed',
        "hint": "allowed: none, single, mixed",
        "programs": None,
    }


def test_annotations_of_github_are_escaped() -> None:
    finding = Finding(Severity.NOTE, Place("a,b:c", 3, "k"), "50%\nx", "h")

    assert github_line(finding) == "::notice file=a%2Cb%3Ac,line=3::k: 50%25%0Ax (h)"
    text = render(RESULT, "github", PLAIN, strict=False)
    assert text.startswith("::error file=0.yaml,line=1::flags.migStrategy: ")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ((), "no problems in 0 configurations (0 files)"),
        (("version: v1",), "no problems in 1 configuration (1 file)"),
        ((BAD, BAD), "2 errors in 2 configurations (2 files)"),
    ],
)
def test_summaries(texts: tuple[str, ...], words: str) -> None:
    assert summary(result_of(*texts)) == words


@pytest.mark.parametrize("text", [" " * 2**20 + "x", "- " * 2**19, "-" * 2**20, "\t" * 2**20])
def test_long_rows_of_blanks_and_dashes_take_no_time(text: str) -> None:
    """With the square of their length, each of them would take the better part of an hour."""
    assert recognise(Source("a.yaml", text.encode())) is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("- {flags: {}", True),
        ("a: [\n\t  'migStrategy' : x", True),
        ("noflags: [", False),
        ("my-flags: [", False),
        ("the flags are: [", False),
    ],
)
def test_what_is_no_yaml_speaks_of_a_configuration_by_whole_keys(text: str, speaks: bool) -> None:
    assert speaks_of_configuration(text) is speaks
