"""The objects of Kubernetes that a file holds: several documents, lists of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.document import Node, parse_documents
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
    try:
        roots = list(parse_documents(data, file))
    except ConfigError:
        roots = list(_one_by_one(data, file, report))
    for root in roots:
        yield from _objects(Value(root, Place(file, root.line)), last_line)


def _one_by_one(data: bytes, file: str, report: Callable[[ConfigError], None]) -> Iterator[Node]:
    """The documents that are YAML, each read for itself, whatever the others are."""
    line = 1
    for part in _parts(data):
        try:
            yield from parse_documents(part, file, line)
        except ConfigError as error:
            report(error)
        line += part.count(b"\n")


def _parts(data: bytes) -> Iterator[bytes]:
    """The data, cut before each ``---``, which begins a document wherever it starts a line."""
    start = 0
    for mark in _DOCUMENT.finditer(data):
        yield data[start : mark.start()]
        start = mark.start()
    yield data[start:]


def _objects(root: Value, last_line: int, depth: int = 0) -> Iterator[Object]:
    item = Object(root, last_line)
    if item.kind.endswith("List") and depth < _DEEPEST:
        for each in root.get("items").items():
            below = Value(each.node, Place(each.place.file, each.place.line))
            yield from _objects(below, last_line, depth + 1)
    elif item.kind:
        yield item
