"""Values of manifests by their paths, whatever is there instead of what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.document import Node
from gpu_device_plugin.config.scalars import Scalar

_NOTHING = Node(0, None)


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a manifest and its place; one that is absent stands where its parent does."""

    node: Node
    place: Place

    def get(self, *keys: str) -> Value:
        """The value below a mapping; null if there is none, or this is no mapping."""
        value = self
        for key in keys:
            node = value.node.value
            found = node.get(key) if isinstance(node, dict) else None
            line = found.line if found else value.place.line
            value = Value(found or _NOTHING, value.place.below(key, line))
        return value

    def entries(self) -> Iterator[tuple[str, Value]]:
        """The entries of a mapping; nothing for anything else."""
        if isinstance(self.node.value, dict):
            for key in self.node.value:
                yield key, self.get(key)

    def items(self) -> Iterator[Value]:
        """The items of a list; nothing for anything else."""
        if isinstance(self.node.value, list):
            for number, node in enumerate(self.node.value):
                yield Value(node, self.place.item(number, node.line))

    def named(self) -> Iterator[tuple[str, Value]]:
        """The items of a list that have a name, by it."""
        for item in self.items():
            if name := item.get("name").text:
                yield name, item

    @property
    def scalar(self) -> Scalar:
        """The value, if it is neither a list nor a mapping, else null."""
        value = self.node.value
        return None if isinstance(value, list | dict) else value

    @property
    def text(self) -> str:
        """The value, if it is a text, else the empty one."""
        return self.node.value if isinstance(self.node.value, str) else ""

    @property
    def exists(self) -> bool:
        """Whether there is anything but null."""
        return self.node.value is not None

    def is_true(self) -> bool:
        """Whether it is the boolean true."""
        return self.node.value is True

    def is_false(self) -> bool:
        """Whether it is the boolean false."""
        return self.node.value is False
