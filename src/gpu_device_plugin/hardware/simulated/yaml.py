"""YAML files of the simulated node, read so that every mistake has a place.

All scalars are kept as the text that stands in the file: PCI addresses such as ``07:00`` and
versions such as ``12.10`` are no numbers, whatever YAML 1.1 makes of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpu_device_plugin.errors import ConfigError

DEEPEST = 16
"""Levels of nesting that are read; the format needs five."""
MOST_NODES = 20_000
"""Values in one file, each use of an alias counted; far more than the largest node needs."""
MOST_BYTES = 1_000_000
"""Length of a file; far more than the largest node needs."""

NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True)
class RawNode:
    """A value with the line that it stands in."""

    line: int
    value: str | list[RawNode] | dict[str, RawNode]
    quoted: bool = False
    size: int = 1
    """Values that it consists of."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a file and the way to it, asked for in the form that is needed there."""

    file: str
    path: str
    node: RawNode

    def error(self, what: str, allowed: str = "") -> ConfigError:
        """The error that this value is wrong, with what would be right."""
        place = f"{one_line(self.file)}:{self.node.line}: {one_line(self.path)}".rstrip(": ")
        return ConfigError(f"{place}: {what}", f"allowed: {allowed}" if allowed else "")

    @property
    def is_nothing(self) -> bool:
        """Whether it is a null, which counts as if it were not there."""
        value = self.node.value
        return isinstance(value, str) and not self.node.quoted and value in NOTHING

    def mapping(self, allowed: Collection[str] | None = None) -> dict[str, Entry]:
        """The values by key, less those that are null.

        Args:
            allowed: the keys that there are; None for any.
        """
        value = self.node.value
        if not isinstance(value, dict):
            raise self.error(f"{self.shown()} is not a mapping", _listed(allowed))
        entries = {key: self._below(key, node) for key, node in value.items()}
        for key, entry in entries.items():
            if allowed is not None and key not in allowed:
                raise entry.error("there is no such key", _listed(allowed))
        return {key: entry for key, entry in entries.items() if not entry.is_nothing}

    def nulls(self) -> set[str]:
        """The keys of a mapping that are null."""
        value = self.node.value
        if not isinstance(value, dict):
            return set()
        return {key for key, node in value.items() if self._below(key, node).is_nothing}

    def items(self) -> list[Entry]:
        """The items of a list."""
        if not isinstance(self.node.value, list):
            raise self.error(f"{self.shown()} is not a list")
        return [
            Entry(self.file, f"{self.path}[{number}]", node)
            for number, node in enumerate(self.node.value)
        ]

    def text(self, allowed: str = "text") -> str:
        """A single value, as it is written."""
        if not isinstance(self.node.value, str) or self.is_nothing:
            raise self.error(f"{self.shown()} is not a text", allowed)
        return self.node.value

    def line_of_text(self, longest: int) -> str:
        """A text of printable characters."""
        allowed = f"1 to {longest} printable characters"
        text = self.text(allowed)
        if not text.isprintable() or not 0 < len(text) <= longest:
            raise self.error(f"{self.shown()} cannot be used", allowed)
        return text

    def choice(self, choices: Collection[str]) -> str:
        """One of a few words."""
        text = self.text(_listed(choices))
        if text not in choices:
            raise self.error(f"{self.shown()} is unknown", _listed(choices))
        return text

    def integer(self, low: int, high: int) -> int:
        """A decimal number."""
        allowed = f"whole numbers from {low} to {high}"
        number = whole_number(self.text(allowed))
        if number is None or not low <= number <= high:
            raise self.error(f"{self.shown()} cannot be used", allowed)
        return number

    def shown(self) -> str:
        """The value as messages show it."""
        if isinstance(self.node.value, list):
            return "a list"
        if isinstance(self.node.value, dict):
            return "a mapping"
        return "null" if self.is_nothing else quote(self.node.value)

    def _below(self, key: str, node: RawNode) -> Entry:
        return Entry(self.file, f"{self.path}.{key}" if self.path else key, node)


def whole_number(text: str) -> int | None:
    """The number that decimal digits stand for; None if it is something else."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        return None
    return int(text)


def quote(text: str) -> str:
    """A value of a file in a message: in quotes, in one line, of limited length."""
    return repr(text if len(text) <= 60 else text[:57] + "…")


def one_line(text: str) -> str:
    """A name in a message, with escapes for what is not printable."""
    return text if text.isprintable() else repr(text)[1:-1]


def _listed(words: Iterable[str] | None) -> str:
    return "" if words is None else ", ".join(words)


def parse_yaml(text: str, file: str) -> Entry:
    """The one document of a file; an empty file is a null.

    Raises:
        ConfigError: the text is not YAML, or of a size that cannot be meant.
    """
    import yaml  # noqa: PLC0415 - 1 MB, for simulated nodes only

    builder = _Builder(file)
    if len(text) > MOST_BYTES:
        raise builder.error(1, f"longer than {MOST_BYTES} characters")
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise builder.error(line, f"not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise builder.error(1, f"not YAML: {one_line(str(error))}") from None
    return Entry(file, "", builder.root or RawNode(1, ""))


@dataclass(slots=True)
class _Builder:
    """Puts the events of the parser together, without recursion."""

    file: str
    root: RawNode | None = None
    _open: list[_Collection] = field(default_factory=list)
    _anchors: dict[str, RawNode] = field(default_factory=dict)
    _count: int = 0

    def error(self, line: int, what: str) -> ConfigError:
        return Entry(self.file, "", RawNode(line, "")).error(what)

    def take(self, event: Any) -> None:
        kind, line = type(event).__name__, event.start_mark.line + 1
        if kind == "ScalarEvent":
            self._add(RawNode(line, event.value, quoted=bool(event.style)), event.anchor)
        elif kind in {"SequenceStartEvent", "MappingStartEvent"}:
            if len(self._open) == DEEPEST:
                raise self.error(line, f"nested more than {DEEPEST} levels deep")
            node = RawNode(line, [] if kind == "SequenceStartEvent" else {})
            self._open.append(_Collection(node, event.anchor))
        elif kind in {"SequenceEndEvent", "MappingEndEvent"}:
            collection = self._open.pop()
            self._close(collection)
            self._add(collection.node, collection.anchor)
        elif kind == "AliasEvent":
            known = self._anchors.get(event.anchor)
            if known is None:
                raise self.error(line, f"nothing is anchored as {quote(event.anchor)} here")
            # What a collection holds has been counted once; an alias holds all of it once more.
            self._count += known.size - 1
            self._add(RawNode(line, known.value, known.quoted, known.size), None)

    def _add(self, node: RawNode, anchor: str | None) -> None:
        self._count += 1
        if anchor:
            self._anchors[anchor] = node
        if self._open:
            self._open[-1].parts.append(node)
        elif self.root is None:
            self.root = node
        else:
            raise self.error(node.line, "a second document")
        if self._count > MOST_NODES:
            raise self.error(node.line, f"more than {MOST_NODES} values")

    def _close(self, collection: _Collection) -> None:
        node, parts = collection.node, collection.parts
        node.size = 1 + sum(part.size for part in parts)
        if isinstance(node.value, list):
            node.value = parts
            return
        pairs = iter(parts)
        node.value = {}
        for key, value in zip(pairs, pairs, strict=True):
            if not isinstance(key.value, str):
                raise self.error(key.line, "a list or a mapping cannot be a key")
            if key.value in node.value:
                raise self.error(key.line, f"the key {quote(key.value)} stands here twice")
            node.value[key.value] = RawNode(key.line, value.value, value.quoted, value.size)


@dataclass(slots=True)
class _Collection:
    node: RawNode
    anchor: str | None
    parts: list[RawNode] = field(default_factory=list)
