"""The objects of Kubernetes that a file holds: several documents, lists of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place, PlacedError
from gpu_device_plugin.config.document import parse_documents
from gpu_device_plugin.diagnosis.tree import Value
from gpu_device_plugin.errors import ConfigError

_DOCUMENT = re.compile(rb"^---(?:[ \t]|\r?$)", re.MULTILINE)
_DEEPEST = 10
"""Levels of lists in lists of objects."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object of Kubernetes."""

    root: Value
    """Its paths begin at the object."""
    last_line: int
    """Of the file."""

    @property
    def kind(self) -> str:
        """Such as ``DaemonSet``."""
        return self.root.get("kind").text

    @property
    def name(self) -> str:
        """Its name in its namespace."""
        return self.root.get("metadata", "name").text

    @property
    def namespace(self) -> str:
        """Empty if the manifest leaves it to whoever applies it."""
        return self.root.get("metadata", "namespace").text

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.kind} {self.name}".rstrip()


def read_objects(data: bytes, file: str, report: Callable[[ConfigError], None]) -> Iterator[Object]:
    """Every object of a file; documents that are no YAML are reported and left out."""
    last_line = data.count(b"\n") + (not data.endswith(b"\n"))
    start = 0
    while start < len(data):
        # Blank lines in place of what is done keep the numbers of the others.
        rest = b"\n" * data.count(b"\n", 0, start) + data[start:]
        try:
            for root in parse_documents(rest, file):
                yield from _objects(Value(root, Place(file, root.line)), last_line)
        except ConfigError as error:
            report(error)
            start = _next_document(data, error, start)
        else:
            return


def _next_document(data: bytes, error: ConfigError, start: int) -> int:
    """Where the document after the one with the error begins; the end if there is none."""
    line = error.place.line if isinstance(error, PlacedError) else 0
    if not line:
        return len(data)
    at = start
    for _ in range(line - 1 - data.count(b"\n", 0, start)):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    found = _DOCUMENT.search(data, max(at, start + 1))
    return found.start() if found else len(data)


def _objects(root: Value, last_line: int, depth: int = 0) -> Iterator[Object]:
    item = Object(root, last_line)
    if item.kind.endswith("List") and depth < _DEEPEST:
        for each in root.get("items").items():
            below = Value(each.node, Place(each.place.file, each.place.line))
            yield from _objects(below, last_line, depth + 1)
    elif item.kind:
        yield item
