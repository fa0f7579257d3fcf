"""From the text of a YAML document to a tree whose nodes know their lines.

PyYAML does the scanning, with libyaml if it has it; go-yaml, which Kubernetes uses, is made of
libyaml too. Anchors, merge keys, duplicates and scalars are treated here as go-yaml v2 does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.scalars import Scalar, resolve
from gpu_device_plugin.config.text import one_line, quote
from gpu_device_plugin.errors import ConfigError

DEEPEST = 100
"""Levels of nesting; a configuration needs six."""


@dataclass(slots=True)
class Anchor:
    """A named node; it has no node while that is being read."""

    name: str
    before: int
    """How many nodes had been read before it."""
    node: Node | None = None
    size: int = 0
    """Nodes that an alias to it stands for."""
    used: bool = False


@dataclass(slots=True)
class Node:
    """A value and where it stands; a value of a mapping stands where its key does."""

    line: int
    value: Scalar | list[Node] | dict[str, Node]
    anchor: Anchor | None = None
    repeated: list[tuple[str, int]] = field(default_factory=list)
    """Keys of the mapping that had been given before, with the lines of the later ones."""
    is_merge: bool = False
    """Whether this is a plain ``<<``, which as a key merges other mappings."""
    bar_line: int = 0
    """Where the ``|`` stands after which the lines of a text are lines of the document; 0 for
    every other value."""

    def moved(self, line: int) -> Node:
        """The same value at another line."""
        return Node(line, self.value, self.anchor, self.repeated, bar_line=self.bar_line)


@dataclass(frozen=True, slots=True)
class Document:
    """The first document of a stream."""

    root: Node
    others: int = 0
    """The line of the document that follows; 0 if there is none."""


def parse_document(data: bytes, file: str) -> Document:
    """Reads the first document; nothing at all counts as null.

    Raises:
        ConfigError: the data is not YAML, or YAML that go-yaml would not take.
    """
    events = _scan(data, file)
    root = _Composer(file).read(events)
    try:
        others = next((e for e in events if type(e).__name__ == "DocumentStartEvent"), None)
    except ConfigError:  # what follows the first document need not even be YAML
        others = None
    return Document(root, others.start_mark.line + 1 if others else 0)


def parse_documents(data: bytes, file: str, first_line: int = 1) -> Iterator[Node]:
    """Reads one document after another; gives their roots.

    Args:
        data: the documents.
        file: where they are from, for messages.
        first_line: where in the file the data begins.

    Raises:
        ConfigError: as `parse_document` does, once it comes to what is wrong.
    """
    events = _scan(data, file, first_line)
    for event in events:
        if type(event).__name__ == "DocumentStartEvent":
            yield _Composer(file, first_line).read(events)


def _scan(data: bytes, file: str, first_line: int = 1) -> Iterator[Any]:
    """The events of the stream, as PyYAML finds them; raises ConfigError if it is not YAML."""
    import yaml  # noqa: PLC0415 - only programs with a configuration file need it

    try:
        yield from yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, data, file, first_line) from None
    except yaml.reader.ReaderError as error:
        line = data.count(b"\n", 0, error.position) + first_line
        raise Place(file, line).error(f"not YAML: {one_line(str(error.reason))}") from None
    except (ValueError, OverflowError) as error:
        # Without libyaml, numbers in escapes and directives are converted without a check.
        raise Place(file).error(f"not YAML: {one_line(str(error))}") from None


def _syntax_error(error: Any, data: bytes, file: str, first_line: int) -> ConfigError:
    what = f"not YAML: {one_line(error.problem)}"
    if error.context:
        what += f" {one_line(error.context)}"
    at: int = error.problem_mark.line
    line = b"".join(data.splitlines()[at : at + 1])
    has_tab = b"\t" in line[: len(line) - len(line.lstrip())]
    return Place(file, at + first_line).error(
        what, "indent with blanks, not tabs" if has_tab else ""
    )


@dataclass(slots=True)
class _Collection:
    """A list or mapping that is being read; the keys and values of a mapping alternate."""

    node: Node
    is_mapping: bool
    items: list[Node] = field(default_factory=list)


class _Composer:
    """Makes a tree of events, without recursion, within limits."""

    def __init__(self, file: str, first_line: int = 1) -> None:
        self._file = file
        self._first_line = first_line
        self._open: list[_Collection] = []
        self._anchors: dict[str, Anchor] = {}
        self._nodes = 0
        self._aliased = 0

    def read(self, events: Iterator[Any]) -> Node:
        """The root of the first document; leaves the events that follow it."""
        for event in events:
            kind = type(event).__name__
            line = event.start_mark.line + self._first_line
            if kind in {"SequenceStartEvent", "MappingStartEvent"}:
                self._begin(event, line, is_mapping=kind == "MappingStartEvent")
                continue
            if kind == "ScalarEvent":
                node = self._scalar(event, line)
            elif kind == "AliasEvent":
                node = self._alias(event.anchor, line)
            elif kind in {"SequenceEndEvent", "MappingEndEvent"}:
                node = self._end()
            else:  # the start of the stream or document, or the end of an empty one
                continue
            if not self._open:
                return node
            self._open[-1].items.append(node)
        return Node(self._first_line, None)

    def _place(self, line: int) -> Place:
        return Place(self._file, line)

    def _new(self, event: Any, line: int, value: Scalar | list[Node] | dict[str, Node]) -> Node:
        self._nodes += 1
        node = Node(line, value)
        if event.anchor:
            node.anchor = self._anchors[event.anchor] = Anchor(event.anchor, self._nodes - 1)
        return node

    def _complete(self, node: Node) -> Node:
        if node.anchor:
            node.anchor.node = node
            node.anchor.size = self._nodes - node.anchor.before
        return node

    def _scalar(self, event: Any, line: int) -> Node:
        try:
            value = resolve(event.value, event.tag, plain=event.implicit[0])
        except ValueError as error:
            raise self._place(line).error(str(error)) from None
        node = self._new(event, line, value)
        node.is_merge = event.value == "<<" and event.implicit[0]
        node.bar_line = line if event.style == "|" else 0
        return self._complete(node)

    def _begin(self, event: Any, line: int, *, is_mapping: bool) -> None:
        if len(self._open) >= DEEPEST:
            raise self._place(line).error(f"nested more than {DEEPEST} levels deep")
        node = self._new(event, line, {} if is_mapping else [])
        self._open.append(_Collection(node, is_mapping))

    def _end(self) -> Node:
        collection = self._open.pop()
        if collection.is_mapping:
            self._fill_mapping(collection)
        else:
            for item in collection.items:
                self._refuse_infinite(item)
            collection.node.value = collection.items
        return self._complete(collection.node)

    def _fill_mapping(self, collection: _Collection) -> None:
        node = collection.node
        target: dict[str, Node] = {}
        own: set[str] = set()
        pairs = iter(collection.items)
        for key, value in zip(pairs, pairs, strict=True):
            if key.is_merge:
                self._merge(target, value)
                continue
            name = self._key(key)
            if name in own:
                node.repeated.append((name, key.line))
            self._refuse_infinite(value)
            own.add(name)
            target[name] = value.moved(key.line)
        node.value = target

    def _merge(self, target: dict[str, Node], source: Node) -> None:
        """Takes over the keys of a mapping, or of several, of which the first has most weight.

        Keys that stand before ``<<`` are overridden, those that stand after it override.
        """
        sources = source.value if isinstance(source.value, list) else [source]
        for mapping in reversed(sources):
            if not isinstance(mapping.value, dict):
                raise self._place(source.line).error(
                    "<< merges something that is not a mapping",
                    "allowed: a mapping, or a list of them",
                )
            target.update(mapping.value)

    def _key(self, key: Node) -> str:
        """Keys are strings in the end, as in JSON."""
        value = key.value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        what = "null" if value is None else "a list or a mapping"
        raise self._place(key.line).error(f"{what} cannot be a key")

    def _refuse_infinite(self, node: Node) -> None:
        if isinstance(node.value, float) and not abs(node.value) < float("inf"):
            raise self._place(node.line).error("infinity and not-a-number are not allowed")

    def _alias(self, name: str, line: int) -> Node:
        anchor = self._anchors.get(name)
        if anchor is None:
            raise self._place(line).error(f"there is no anchor {quote(name)} for this alias")
        if anchor.node is None:
            raise self._place(line).error(f"the anchor {quote(name)} contains itself")
        anchor.used = True
        self._nodes += 1 + anchor.size
        self._aliased += anchor.size
        if self._is_bomb():
            raise self._place(line).error("aliases stand for too large a part of the document")
        return anchor.node.moved(line)

    def _is_bomb(self) -> bool:
        """go-yaml's limit: 99 % of a document may come from aliases, 10 % if it is very large."""
        if self._aliased <= 100 or self._nodes <= 1000:
            return False
        excess = (self._nodes - 400_000) / 3_600_000
        allowed = 0.99 - 0.89 * min(max(excess, 0), 1)
        return self._aliased / self._nodes > allowed
