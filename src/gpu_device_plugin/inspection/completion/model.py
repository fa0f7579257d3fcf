"""A command line as shells complete it: commands, options, and what values look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


class Source(StrEnum):
    """Where the values of an option or argument come from."""

    NOTHING = "nothing"
    """Anything may be written; nothing is suggested."""
    FILES = "files"
    DIRECTORIES = "directories"


@dataclass(frozen=True, slots=True)
class Values:
    """What may be written in a place."""

    words: tuple[str, ...] = ()
    """Suggested words."""
    source: Source = Source.NOTHING
    """What is suggested beside them."""
    is_list: bool = False
    """Whether several may be written, separated by commas."""
    name: str = "value"
    """What it is called in the help."""


@dataclass(frozen=True, slots=True)
class OptionGrammar:
    """An option."""

    names: tuple[str, ...]
    """With their dashes."""
    help: str
    values: Values | None = None
    """None if it takes no value."""
    needs_equals: bool = False
    """Whether a value has to be joined to it by ``=``, since it may be left out."""


@dataclass(frozen=True, slots=True)
class CommandGrammar:
    """A program, or one of its commands."""

    path: tuple[str, ...]
    """The commands that lead to it; empty for the program itself."""
    summary: str = ""
    options: tuple[OptionGrammar, ...] = ()
    commands: tuple[CommandGrammar, ...] = ()
    arguments: Values = field(default_factory=Values)
    """What may be written beside options and commands."""

    @property
    def name(self) -> str:
        """Its own name; empty for the program itself."""
        return self.path[-1] if self.path else ""

    def all(self) -> Iterator[CommandGrammar]:
        """Itself, and every command below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def identifier(program: str) -> str:
    """The name of a program as a part of a shell function's name."""
    return "".join(char if char.isalnum() else "_" for char in program)


def plain_help(text: str) -> str:
    """A help text on one line, short enough for a list of suggestions."""
    flat = " ".join(text.split())
    first = flat.split("; ")[0].split(": ")[0] if len(flat) > LONGEST_HELP else flat
    return first if len(first) <= LONGEST_HELP else first[: LONGEST_HELP - 1].rstrip() + "…"


LONGEST_HELP = 100
