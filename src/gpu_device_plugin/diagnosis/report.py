"""The result of a validation as text, JSON, YAML, and as notes of a code review."""

from __future__ import annotations

from typing import Any

from gpu_device_plugin.config.text import count
from gpu_device_plugin.console.data import DATA_FORMS, data_text
from gpu_device_plugin.console.screen import Colours
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.validate import Result

FORMATS = ("table", "json", "yaml", "github")


def render(result: Result, form: str, colours: Colours, *, strict: bool) -> str:
    """The result in one of `FORMATS`."""
    if form in DATA_FORMS:
        return data_text(to_dict(result, strict=strict), form)
    if form == "github":
        lines = [github_line(finding) for finding in result.findings]
    else:
        lines = [text_line(finding, colours) for finding in result.findings]
    return "".join(f"{line}\n" for line in [*lines, summary(result)])


def text_line(finding: Finding, colours: Colours) -> str:
    """A finding with its severity in a colour."""
    colour = {Severity.ERROR: colours.red, Severity.WARNING: colours.yellow}.get(
        finding.severity, colours.cyan
    )
    rest = str(finding).removeprefix(finding.severity)
    return colours.paint(colour, finding.severity) + rest


def summary(result: Result) -> str:
    """``2 errors, 1 warning in 3 configurations and 2 containers (1 file)``."""
    severities = {
        "error": result.count(Severity.ERROR),
        "warning": result.count(Severity.WARNING),
        "note": result.count(Severity.NOTE),
    }
    found = ", ".join(count(n, word) for word, n in severities.items() if n) or "no problems"
    looked = f"{count(result.configurations, 'configuration')}"
    if result.containers:
        looked += f" and {count(result.containers, 'container')}"
    return f"{found} in {looked} ({count(result.files, 'file')})"


def to_dict(result: Result, *, strict: bool) -> dict[str, Any]:
    """The JSON object, whose form is described in docs/validate.md."""
    return {
        "valid": result.is_well(strict=strict),
        "errors": result.count(Severity.ERROR),
        "warnings": result.count(Severity.WARNING),
        "notes": result.count(Severity.NOTE),
        "checked": {
            "files": result.files,
            "configurations": result.configurations,
            "containers": result.containers,
        },
        "findings": [_finding_dict(finding) for finding in result.findings],
    }


def _finding_dict(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "file": finding.place.file,
        "line": finding.place.line or None,
        "object": finding.subject or None,
        "key": finding.place.path or None,
        "message": finding.message,
        "hint": finding.hint or None,
        "programs": [program.value for program in finding.programs] or None,
    }


_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_line(finding: Finding) -> str:
    """A workflow command by which GitHub shows a finding at its line."""
    properties = {"file": finding.place.file, "line": str(finding.place.line or 1)}
    where = ",".join(f"{name}={_escaped(text, ':,')}" for name, text in properties.items())
    parts = (finding.subject, finding.place.path, finding.message)
    text = ": ".join(filter(None, parts))
    if finding.hint:
        text += f" ({finding.hint})"
    return f"::{_COMMANDS[finding.severity]} {where}::{_escaped(text)}"


def _escaped(text: str, also: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + also else c for c in text)
