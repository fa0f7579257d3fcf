"""From the tree of a file to values by field, as Go's encoding/json would fill the structures.

A key that is not known changes nothing but gives a warning; a value of the wrong form is an
error that names file, line and key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_device_plugin.config.diagnostics import (
    ConfigWarning,
    Place,
    Report,
    at_once,
    single_errors,
)
from gpu_device_plugin.config.document import Document, Node, parse_document
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
    """Where keys and items of lists stand that have a value, by their `folded` paths."""


def decode(
    data: bytes, file: str, report: Report = at_once, most_warnings: int = MOST_WARNINGS
) -> Decoded:
    """Reads the contents of a configuration file.

    Args:
        data: the contents.
        file: the name of the file, for messages.
        report: is told of every value that is wrong. If it returns, all is read but that.
        most_warnings: how many are kept.

    Raises:
        ConfigError: the contents are not YAML, or what `report` raises.
    """
    return decode_document(parse_document(data, file), file, report, most_warnings)


def decode_document(
    document: Document, file: str, report: Report = at_once, most_warnings: int = MOST_WARNINGS
) -> Decoded:
    """Takes in a configuration that was read already; else as `decode`.

    Raises:
        ConfigError: what `report` raises.
    """
    decoder = _Decoder(report, most_warnings)
    values: dict[str, Any] = {}
    if document.root.value is not None:
        decoder.read(document.root, Place(file, document.root.line), values)
    if document.others:
        place = Place(file, document.others)
        decoder.warn(place, "only the first document counts; the rest is ignored")
    decoder.warnings.sort(key=lambda warning: warning.place.line)
    return Decoded(values, decoder.warnings, decoder.places)


def _check_version(values: dict[str, Any], entries: Mapping[str, Node], root: Place) -> None:
    version = values.get("version") or VERSION
    values["version"] = VERSION
    if version != VERSION:
        spelling = max(name for name in entries if SCHEMA.child(name) == SCHEMA.child("version"))
        place = root.below(spelling, entries[spelling].line)
        raise place.error(f"{quote(version)} is not a known version", f"allowed: {VERSION}")


class _Decoder:
    """Fills in values by the table of keys."""

    def __init__(self, report: Report, most_warnings: int) -> None:
        self.warnings: list[ConfigWarning] = []
        self.places: dict[str, Place] = {}
        self._report = report
        self._errors = 0
        self._most_warnings = most_warnings

    def read(self, node: Node, place: Place, values: dict[str, Any]) -> None:
        """Fills in what the whole document says."""
        try:
            entries = mapping(node, place)
            self.fill(SCHEMA, node, place, values)
            _check_version(values, entries, place)
        except ConfigError as error:
            self._tell(error)

    def warn(self, place: Place, message: str, hint: str = "", *, loses: bool = False) -> None:
        """Notes something that changes nothing, but is probably not as it was meant."""
        if len(self.warnings) < self._most_warnings:
            self.warnings.append(ConfigWarning(place, message, hint, loses))

    def _tell(self, error: ConfigError) -> None:
        for each in single_errors(error):
            self._errors += 1
            self._report(each)

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
            try:
                self._fill_one(child, entries[name], below, values)
            except ConfigError as error:
                self._tell(error)
        for child in key.children:
            if child.required and child.name not in seen:
                self._tell(
                    place.error(f"{quote(child.name)} is missing", _missing_hint(child, entries))
                )

    def _fill_one(self, key: Key, node: Node, place: Place, values: dict[str, Any]) -> None:
        if node.value is None and key.null is not Null.FAILS:
            _fill_null(key, values)
            return
        if key.form is Form.OBJECT:
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
            at = place.item(index, item.line)
            self.places[folded(at.path)] = at
            try:
                objects += self._object(key, item, at)
            except ConfigError as error:
                self._tell(error)
        return tuple(objects)

    def _object(self, key: Key, node: Node, place: Place) -> list[Any]:
        """The part of the model that an item makes; none if anything in it is wrong."""
        values: dict[str, Any] = {}
        errors_before = self._errors
        self.fill(key, node, place, values)
        if self._errors > errors_before:
            return []
        try:
            return [build(key, values)]
        except ConfigError as error:
            raise place.error(error.message, error.hint) from None

    def _warn_repeated(self, key: Key, node: Node, place: Place) -> None:
        for name, line in node.repeated:
            if key.child(name):
                self.warn(place.below(name, line), "given more than once; the last one counts")

    def _warn_unknown(self, key: Key, name: str, node: Node, place: Place) -> None:
        """Says that a key is ignored, unless it is there to hold an anchor or begins with x-."""
        holds_anchor = node.anchor is not None and node.anchor.used
        if key is SCHEMA and (name.startswith("x-") or holds_anchor):
            return
        if len(self.warnings) >= self._most_warnings:
            return  # before looking for a hint, which takes its time
        self.warn(place, "unknown key, ignored", hint_for(key, name), loses=True)


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
