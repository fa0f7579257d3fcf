"""What a key of the configuration file is; the table of keys is in the module ``keys``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Form(StrEnum):
    """What the value of a key must look like."""

    OBJECT = "mapping"
    OBJECTS = "list of mappings"
    BOOL = "boolean"
    TEXT = "text"
    INTEGER = "integer"
    TEXTS = "text or list of texts"
    INTEGERS = "list of integers"
    DURATION = "duration"
    NAME = "resource name"
    SELECTOR = "devices"
    CHOICE = "one of several words"
    CHOICES = "mapping of numbers to words"
    PERIOD = "duration with a unit"
    GPUS = "list of GPUs"
    PATTERNS = "list of patterns"
    MEMORY = "size of memory"
    MEMORIES = "mapping of GPUs to sizes of memory"


class Null(StrEnum):
    """What it means to write ``null``."""

    UNSETS = "unsets"
    """As if the key were not there, nor any other spelling of it."""
    KEEPS = "keeps"
    """As if this line were not there; only seen if a key is given in several spellings."""
    EMPTIES = "empties"
    """The same as the empty text."""
    FAILS = "fails"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration file."""

    name: str
    field: str
    """The attribute of the model."""
    form: Form
    null: Null = Null.UNSETS
    help: str = ""
    """Empty if an option says it."""
    default: str = ""
    """What counts if the key is absent, in words; empty if an option says it."""
    allowed: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    required: bool = False
    since: str = ""
    ours: bool = False
    children: tuple[Key, ...] = ()
    """Keys of the mapping, or of each mapping in the list."""
    exact: bool = False
    """Whether the keys below must be spelled exactly; elsewhere upper and lower case are one."""
    build: Callable[..., Any] | None = None
    """Makes the part of the model from the values below, which are given by field."""

    def child(self, name: str) -> Key | None:
        """The key below that has the name, as far as this key cares for upper and lower case."""
        wanted = folded(name)
        for child in self.children:
            if name == child.name or (not self.exact and wanted == folded(child.name)):
                return child
        return None


def folded(name: str) -> str:
    """Upper and lower case as Go's encoding/json unites them: the long s is an s there."""
    return name.lower().replace("\u017f", "s")


def walk(key: Key, path: str = "") -> Iterator[tuple[str, Key]]:
    """Every key below one, with its path; items of lists are ``resources[]``."""
    for child in key.children:
        below = f"{path}.{child.name}" if path else child.name
        yield below, child
        yield from walk(child, below + "[]" if child.form is Form.OBJECTS else below)


def build(key: Key, values: Mapping[str, Any]) -> Any:
    """The part of the model that values, by field, of the keys below make up.

    What is None counts as absent.
    """
    objects = {child.field: child for child in key.children if child.form is Form.OBJECT}
    fields = {
        field: build(objects[field], value) if field in objects else value
        for field, value in values.items()
        if value is not None
    }
    assert key.build is not None, key.name  # noqa: S101 - else the table of keys is wrong
    return key.build(**fields)
