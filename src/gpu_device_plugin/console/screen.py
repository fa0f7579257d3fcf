"""Where text for people goes: how wide it is, and in which colours it can be."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Colours:
    """What makes text stand out; all empty where nothing is to be coloured."""

    red: str = ""
    green: str = ""
    yellow: str = ""
    cyan: str = ""
    bold: str = ""
    end: str = ""

    def paint(self, colour: str, text: str) -> str:
        """The text in a colour."""
        return f"{colour}{text}{self.end}" if colour else text


PLAIN = Colours()
ANSI = Colours(
    red="\x1b[31m",
    green="\x1b[32m",
    yellow="\x1b[33m",
    cyan="\x1b[36m",
    bold="\x1b[1m",
    end="\x1b[0m",
)


@dataclass(frozen=True, slots=True)
class Screen:
    """Where text goes."""

    columns: int | None = 80
    """Width; None for any."""
    colours: Colours = PLAIN


def colours_for(stream: TextIO, environ: Mapping[str, str]) -> Colours:
    """Colours if the stream is a terminal that has them and the user wants them (NO_COLOR)."""
    if environ.get("NO_COLOR") or environ.get("TERM", "dumb") in {"", "dumb"}:
        return PLAIN
    return ANSI if stream.isatty() else PLAIN


def screen_of(stream: TextIO, environ: Mapping[str, str]) -> Screen:
    """The terminal that a stream is; where it is none, lines are as long as they come."""
    columns = shutil.get_terminal_size().columns if stream.isatty() else None
    return Screen(columns, colours_for(stream, environ))
