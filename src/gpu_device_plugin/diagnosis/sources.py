"""The text of a configuration, and where its lines stand in the file that holds it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.document import Document, Node, parse_document
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.errors import ConfigError, UserError


@dataclass(frozen=True, slots=True)
class Source:
    """A configuration: a file, or an entry of a ConfigMap in a file."""

    file: str
    data: bytes = field(repr=False)
    subject: str = ""
    """The object that holds it; empty for a file of its own."""
    first_line: int = 1
    """Where its first line stands in the file."""
    keeps_lines: bool = True
    """Whether each further line of it is one of the file; else all stand at the first."""
    last_line: int = 0
    """That of the file; 0 if it is not known."""
    _read: list[Document | ConfigError] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def document(self) -> Document:
        """The YAML in it, which is read once, whoever asks.

        Raises:
            ConfigError: as `parse_document` does.
        """
        if not self._read:
            try:
                self._read.append(parse_document(self.data, self.file))
            except ConfigError as error:
                self._read.append(error)
        (found,) = self._read
        if isinstance(found, ConfigError):
            raise found
        return found

    def place(self, place: Place) -> Place:
        """The place in the file of a place in the configuration."""
        if not place.line:
            return Place(self.file, self.first_line if self.subject else 0, place.path)
        line = self.first_line + place.line - 1 if self.keeps_lines else self.first_line
        if self.last_line:
            line = max(1, min(line, self.last_line))
        return Place(self.file, line, place.path)

    def finding(self, severity: Severity, place: Place, message: str, hint: str = "") -> Finding:
        """A finding at a place of the configuration."""
        return Finding(severity, self.place(place), message, hint, self.subject)


def source_of_entry(node: Node, data: bytes, file: str, subject: str, last_line: int) -> Source:
    """The text that a value of a manifest holds.

    Args:
        node: the value, whose line is that of its key.
        data: what the value says.
        file: holds the manifest.
        subject: the object and its key.
        last_line: of the file.
    """
    source = Source(file, data, subject, node.line, keeps_lines=False, last_line=last_line)
    if node.bar_line:
        return replace(source, first_line=node.bar_line + 1, keeps_lines=True)
    return source


def what_of(error: UserError) -> tuple[Place | None, str]:
    """The place of an error, if it has one, and the message without it."""
    place = getattr(error, "place", None)
    if isinstance(error, ConfigError) and isinstance(place, Place):
        return place, str(getattr(error, "what", error.message))
    return None, error.message
