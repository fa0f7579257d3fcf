"""What there is to say about configurations and manifests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.text import one_line


class Severity(StrEnum):
    """How bad a finding is; in order, the worst first."""

    ERROR = "error"
    """A program does not start, or something that is written down has no effect."""
    WARNING = "warning"
    """It works, but probably not as it was meant."""
    NOTE = "note"
    """Something that could not be checked, or is good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is to be said, where, and what would be right."""

    severity: Severity
    place: Place
    """Its path is the key of the configuration, or that of the object."""
    message: str
    hint: str = ""
    subject: str = ""
    """The object that the place is in, such as ``ConfigMap configs, mig.yaml``; empty for a file
    that is a configuration."""
    programs: tuple[Program, ...] = ()
    """Whom it is about; empty for everybody whose rules were applied."""

    def __str__(self) -> str:
        """One line: ``error: FILE:LINE: subject: key: message (hint)``."""
        where = Place(self.place.file, self.place.line)
        key = str(Place(path=self.place.path))
        parts = (self.severity, str(where), one_line(self.subject), key, one_line(self.message))
        text = ": ".join(filter(None, parts))
        if self.programs:
            text += f" [{', '.join(self.programs)}]"
        return f"{text} ({one_line(self.hint)})" if self.hint else text


def in_order(findings: Iterable[Finding], files: Iterable[str]) -> list[Finding]:
    """By file in the order that is given, then by line; each once."""
    numbers = {file: number for number, file in enumerate(files)}
    last = len(numbers)
    return sorted(
        dict.fromkeys(findings),
        key=lambda finding: (numbers.get(finding.place.file, last), finding.place.line),
    )


def united(
    by_program: Iterable[tuple[Program, Iterable[Finding]]], asked: Iterable[Program]
) -> list[Finding]:
    """What programs have to say about the same thing, with the names of those that say it.

    Args:
        by_program: what the rules of each have found.
        asked: all of them; what each of them says has no names.
    """
    saying: dict[Finding, list[Program]] = {}
    for program, findings in by_program:
        for finding in findings:
            programs = saying.setdefault(replace(finding, programs=()), [])
            if program not in programs:
                programs.append(program)
    everybody = set(asked)
    return [
        finding if set(programs) == everybody else replace(finding, programs=tuple(programs))
        for finding, programs in saying.items()
    ]
