"""What there is to say about a file that somebody wrote."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.config.diagnostics import Place


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Container runtimes refuse the file."""
    WARNING = "warning"
    """Runtimes take the file, but containers may not start, or not get what was meant."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where, and what would be right."""

    severity: Severity
    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """One line: ``error: FILE:LINE: path: message (hint)``."""
        text = ": ".join(filter(None, (self.severity, str(self.place), self.message)))
        return f"{text} ({self.hint})" if self.hint else text


def error(place: Place, message: str, hint: str = "") -> Finding:
    """Something that runtimes refuse."""
    return Finding(Severity.ERROR, place, message, hint)


def warning(place: Place, message: str, hint: str = "") -> Finding:
    """Something that probably is not as it was meant."""
    return Finding(Severity.WARNING, place, message, hint)
