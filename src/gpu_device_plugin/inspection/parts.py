"""The objects of a file, whose fields know where they stand and need not be what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.document import Node


@dataclass(frozen=True, slots=True)
class Part:
    """One object; what has a wrong type in it is passed over, that is for `shape` to tell."""

    fields: dict[str, Node]
    place: Place

    @classmethod
    def of(cls, node: Node | None, place: Place) -> Part | None:
        """The object that a node is; None if it is none."""
        value = None if node is None else node.value
        return cls(value, place) if isinstance(value, dict) else None

    def at(self, name: str) -> Place:
        """Where a field stands, or would stand."""
        node = self.fields.get(name)
        return self.place.below(name, self.place.line if node is None else node.line)

    def has(self, name: str) -> bool:
        """Whether there is a field of that name that is not null."""
        node = self.fields.get(name)
        return node is not None and node.value is not None

    def text(self, name: str) -> str | None:
        """The text of a field, empty if there is none; None if it is something else."""
        if not self.has(name):
            return ""
        value = self.fields[name].value
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int:
        """The whole number of a field, 0 if it is not there or something else."""
        node = self.fields.get(name)
        return node.value if node is not None and type(node.value) is int else 0

    def texts(self, name: str) -> Iterator[tuple[str, Place]]:
        """The texts of a list."""
        for node, place in self._items(name):
            if isinstance(node.value, str):
                yield node.value, place

    def parts(self, name: str) -> Iterator[Part]:
        """The objects of a list."""
        for node, place in self._items(name):
            if isinstance(node.value, dict):
                yield Part(node.value, place)

    def part(self, name: str) -> Part | None:
        """The object of a field; None if it is not there or something else."""
        return Part.of(self.fields.get(name), self.at(name))

    def mapping(self, name: str) -> dict[str, str]:
        """The texts of an object by their keys."""
        part = self.part(name)
        if part is None:
            return {}
        return {k: n.value for k, n in part.fields.items() if isinstance(n.value, str)}

    def _items(self, name: str) -> Iterator[tuple[Node, Place]]:
        node = self.fields.get(name)
        if node is None or not isinstance(node.value, list):
            return
        place = self.at(name)
        for index, item in enumerate(node.value):
            yield item, place.item(index, item.line)


def all_edits(spec: Part) -> Iterator[Part]:
    """The edits of every device, then those that all devices share."""
    for device in spec.parts("devices"):
        edits = device.part("containerEdits")
        if edits is not None:
            yield edits
    edits = spec.part("containerEdits")
    if edits is not None:
        yield edits
