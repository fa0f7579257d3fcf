"""Everything that is wrong with a specification file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.reader import parse_spec
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.document import Document, parse_document
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.catalogue import ReadSpec, State, catalogue
from gpu_device_plugin.inspection.files import EXTENSIONS, SpecFile, read_bytes
from gpu_device_plugin.inspection.findings import Finding, Severity, error, warning
from gpu_device_plugin.inspection.host import host_findings
from gpu_device_plugin.inspection.parts import Part
from gpu_device_plugin.inspection.rules import rule_findings
from gpu_device_plugin.inspection.shape import shape_findings


@dataclass(frozen=True, slots=True)
class Checked:
    """One file and what was found in it."""

    file: str
    findings: tuple[Finding, ...]
    spec: Spec | None = None
    """Its contents, if runtimes take them."""

    def count(self, severity: Severity) -> int:
        """How many findings of a kind there are."""
        return sum(finding.severity is severity for finding in self.findings)


def check_file(path: str, host: Root | None, *, regular: bool = True) -> Checked:
    """Checks a file.

    Args:
        path: of the file.
        host: where the files are that the specification names; None: they are not looked for.
        regular: refuse what is no regular file.
    """
    try:
        data = read_bytes(path, regular=regular)
    except (OSError, ValueError) as problem:
        return Checked(path, (error(Place(path), f"cannot be read: {reason(problem)}"),))
    checked = check_data(data, path, host)
    if os.path.isfile(path) and not path.endswith(EXTENSIONS):
        hint = f"runtimes read {' and '.join(EXTENSIONS)} files"
        finding = warning(Place(path), "runtimes do not read a file of this name", hint)
        return Checked(path, (finding, *checked.findings), checked.spec)
    return checked


def check_data(data: bytes, file: str, host: Root | None) -> Checked:
    """Checks the contents of a file, which is read as YAML, of which JSON is a part."""
    try:
        document = parse_document(data, file)
    except ConfigError as problem:
        finding = _json_finding(data, file) or error(Place(), problem.message, problem.hint)
        return Checked(file, (finding,))
    findings = sorted(_document_findings(data, file, document), key=lambda f: f.place.line)
    spec = None
    if not any(finding.severity is Severity.ERROR for finding in findings):
        # The reader decides; that it refuses what was found right here should not happen.
        try:
            spec = parse_spec(data, file)
        except ConfigError as problem:
            findings.append(error(Place(), one_line(problem.message), problem.hint))
    part = Part.of(document.root, Place(file, 1))
    if part is not None and host is not None:
        findings += host_findings(part, host)
    return Checked(file, tuple(findings), spec)


def conflict_findings(files: Iterable[tuple[SpecFile, Checked]]) -> Iterator[Finding]:
    """Devices of one name in several files that are looked at together."""
    read = [ReadSpec(file, checked.spec) for file, checked in files if checked.spec is not None]
    for entry in catalogue(read):
        others = ", ".join(entry.others)
        match entry.state:
            case State.CONFLICT:
                yield error(
                    Place(entry.file),
                    f"{entry.name} is in {others}, too: no runtime resolves it",
                    "remove one of the files",
                )
            case State.SHADOWED:
                yield warning(Place(entry.file), f"{entry.name} is overridden by {others}")
            case State.OK:
                pass


def _document_findings(data: bytes, file: str, document: Document) -> Iterator[Finding]:
    place = Place(file, document.root.line)
    if document.root.value is None:
        yield error(Place(file), "is empty", "a CDI specification")
        return
    yield from shape_findings(document.root, place)
    part = Part.of(document.root, place)
    if part is not None:
        yield from rule_findings(part)
    if document.others:
        yield warning(
            Place(file, document.others),
            "a second document begins here, which runtimes ignore",
            "one file for each specification",
        )
    finding = _json_finding(data, file)
    if finding is not None:
        yield finding


def _json_finding(data: bytes, file: str) -> Finding | None:
    """That a file says that it is JSON and is not, though runtimes read it as YAML."""
    if not file.endswith(".json"):
        return None
    try:
        json.loads(data)
    except json.JSONDecodeError as problem:
        what = f"not JSON: column {problem.colno}: {problem.msg}"
        return error(Place(file, problem.lineno), what, "name it .yaml if it is YAML")
    except (ValueError, RecursionError):
        pass  # not UTF-8, or nested too deeply, which is told of as YAML
    return None
