"""From the tree of a file to values by field, as Go's encoding/json would fill the structures.

A key that is not known changes nothing but gives a warning; a value of the wrong form is an
error that names file, line and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_device_plugin.config.diagnostics import ConfigWarning, Place
from gpu_device_plugin.config.document import Node, parse_document
from gpu_device_plugin.config.hints import hint_for
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.readers import mapping, read_leaf, sequence
from gpu_device_plugin.config.schema import Form, Key, Null, build, folded
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.errors import ConfigError

VERSION = "v1"
MOST_WARNINGS = 50
"""Warnings of one file; there is no use in more."""


@dataclass(slots=True)
class Decoded:
    """What a file says."""

    values: dict[str, Any] = field(default_factory=dict)
    """By the fields of the model; what is null in the file is None or absent."""
    warnings: list[ConfigWarning] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    """Where the keys stand that have a value, by their `folded` paths."""


def decode(data: bytes, file: str) -> Decoded:
    """Reads the contents of a configuration file; the file's name is for messages.

    Raises:
        ConfigError: the contents are not YAML, or hold a value of the wrong form.
    """
    document = parse_document(data, file)
    decoder = _Decoder()
    values: dict[str, Any] = {}
    if document.root.value is not None:
        root = Place(file, document.root.line)
        entries = mapping(document.root, root)
        decoder.fill(SCHEMA, document.root, root, values)
        _check_version(values, entries, root)
    if document.others:
        place = Place(file, document.others)
        decoder.warn(place, "only the first document counts; the rest is ignored")
    decoder.warnings.sort(key=lambda warning: warning.place.line)
    return Decoded(values, decoder.warnings, decoder.places)


def _check_version(values: dict[str, Any], entries: Mapping[str, Node], root: Place) -> None:
    version = values["version"] = values.get("version") or VERSION
    if version != VERSION:
        spelling = max(name for name in entries if SCHEMA.child(name) == SCHEMA.child("version"))
        place = root.below(spelling, entries[spelling].line)
        raise place.error(f"{quote(version)} is not a known version", f"allowed: {VERSION}")


class _Decoder:
    """Fills in values by the table of keys."""

    def __init__(self) -> None:
        self.warnings: list[ConfigWarning] = []
        self.places: dict[str, Place] = {}

    def warn(self, place: Place, message: str, hint: str = "") -> None:
        """Notes something that changes nothing, but is probably not as it was meant."""
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(ConfigWarning(place, message, hint))

    def fill(self, key: Key, node: Node, place: Place, values: dict[str, Any]) -> None:
        """Adds what a mapping says to the values of its fields.

        Spellings of one key that differ in case are taken in the order of their bytes, so that
        of scalars and lists the last one counts, while mappings are united.
        """
        entries = mapping(node, place)
        self._warn_repeated(key, node, place)
        seen: dict[str, str] = {}
        for name in sorted(entries):
            child = key.child(name)
            below = place.below(name, entries[name].line)
            if child is None:
                self._warn_unknown(key, name, entries[name], below)
                continue
            if child.name in seen:
                self.warn(below, f"the same key as {seen[child.name]}; this spelling counts last")
            seen[child.name] = name
            self._fill_one(child, entries[name], below, values)
        for child in key.children:
            if child.required and child.name not in seen:
                raise place.error(f"{quote(child.name)} is missing", _missing_hint(child, entries))

    def _fill_one(self, key: Key, node: Node, place: Place, values: dict[str, Any]) -> None:
        if node.value is None and key.null is not Null.FAILS:
            _fill_null(key, values)
        elif key.form is Form.OBJECT:
            below = values.get(key.field)
            if below is None:
                below = values[key.field] = {}
            self.fill(key, node, place, below)
        elif key.form is Form.OBJECTS:
            values[key.field] = self._objects(key, node, place)
        else:
            for name, line in node.repeated:
                self.warn(place.below(name, line), "given more than once; the last one counts")
            values[key.field] = read_leaf(key, node, place)
            self.places[folded(place.path)] = place

    def _objects(self, key: Key, node: Node, place: Place) -> tuple[Any, ...]:
        items = sequence(node, place, "a list of mappings")
        if len(items) < (key.minimum or 0):
            raise place.error("the list is empty", "at least one entry is needed")
        objects = []
        for index, item in enumerate(items):
            values: dict[str, Any] = {}
            at = place.item(index, item.line)
            self.fill(key, item, at, values)
            try:
                objects.append(build(key, values))
            except ConfigError as error:
                raise at.error(error.message, error.hint) from None
        return tuple(objects)

    def _warn_repeated(self, key: Key, node: Node, place: Place) -> None:
        for name, line in node.repeated:
            if key.child(name):
                self.warn(place.below(name, line), "given more than once; the last one counts")

    def _warn_unknown(self, key: Key, name: str, node: Node, place: Place) -> None:
        """Says that a key is ignored, unless it is there to hold an anchor or begins with x-."""
        holds_anchor = node.anchor is not None and node.anchor.used
        if key is SCHEMA and (name.startswith("x-") or holds_anchor):
            return
        if len(self.warnings) >= MOST_WARNINGS:
            return  # before looking for a hint, which takes its time
        self.warn(place, "unknown key, ignored", hint_for(key, name))


def _fill_null(key: Key, values: dict[str, Any]) -> None:
    if key.null is Null.UNSETS:
        values[key.field] = None
    elif key.null is Null.EMPTIES:
        values[key.field] = ""


def _missing_hint(key: Key, entries: Mapping[str, Node]) -> str:
    """A hint for a required key, which may be there in another spelling."""
    other = next((name for name in entries if name.lower() == key.name.lower()), "")
    if other:
        return f"{quote(other)} must be written {key.name} here"
    return f"allowed: {', '.join(key.allowed)}" if key.allowed else ""
