"""Lines of coloured text of limited width, as plain data until they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.simulation.demo.stage import Tone

RESET = "\x1b[0m"

SGR = {
    Tone.PLAIN: "",
    Tone.STRONG: "1",
    Tone.QUIET: "2",
    Tone.GOOD: "32",
    Tone.WARNING: "33",
    Tone.BAD: "31",
}
"""The terminal's own colours, so that they fit whatever theme it has."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line in one style."""

    text: str
    sgr: str = ""
    """Parameters of the escape sequence that selects the style."""


Line = tuple[Span, ...]


def span(text: str, tone: Tone = Tone.PLAIN) -> Span:
    """A piece of text with a meaning."""
    return Span(text, SGR[tone])


class Align(StrEnum):
    """To which side of its column a text goes."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `width` 0 for what is left of the line."""

    title: str
    width: int
    align: Align = Align.LEFT


def length(line: Iterable[Span]) -> int:
    """How many cells a line takes; every character that is used takes one."""
    return sum(len(piece.text) for piece in line)


def fit(line: Sequence[Span], width: int, ellipsis: str = "…") -> Line:
    """The line in no more than so many cells."""
    if length(line) <= width:
        return tuple(line)
    kept, left = list[Span](), max(0, width - len(ellipsis))
    for piece in line:
        if left <= 0:
            break
        kept.append(Span(piece.text[:left], piece.sgr))
        left -= len(piece.text)
    return (*kept, Span(ellipsis[:width], kept[-1].sgr if kept else ""))


def pad(line: Sequence[Span], width: int, align: Align = Align.LEFT, ellipsis: str = "…") -> Line:
    """The line in exactly so many cells."""
    fitted = fit(line, width, ellipsis)
    space = Span(" " * (width - length(fitted)))
    return (*fitted, space) if align is Align.LEFT else (space, *fitted)


def row(
    columns: Sequence[Column], cells: Sequence[Sequence[Span]], width: int, ellipsis: str = "…"
) -> Line:
    """A row of a table: every cell in its column, two spaces between them."""
    pieces = list[Span]()
    for column, cell in zip(columns, cells, strict=True):
        if pieces:
            pieces.append(Span("  "))
        left = max(0, width - length(pieces))
        pieces.extend(pad(cell, min(column.width or left, left), column.align, ellipsis))
    return fit(pieces, width, ellipsis)


def head(columns: Sequence[Column], width: int, ellipsis: str = "…") -> Line:
    """The titles of a table."""
    cells = [(span(column.title, Tone.QUIET),) for column in columns]
    return row(columns, cells, width, ellipsis)


def to_text(line: Iterable[Span], *, colour: bool) -> str:
    """The line as it is written to a terminal or, without colours, to a file."""
    if not colour:
        return "".join(piece.text for piece in line).rstrip()
    return "".join(
        f"\x1b[{piece.sgr}m{piece.text}{RESET}" if piece.sgr else piece.text for piece in line
    )
