"""Tables for terminals: columns aligned, narrowed or left out where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.console.screen import PLAIN, Colours

GAP = "  "
ELLIPSIS = "…"
NOTHING = "-"
"""In cells that have nothing to say, so that every line has as many words as the others."""


@dataclass(frozen=True, slots=True)
class Column:
    """What is known of a column before its cells are."""

    head: str
    right: bool = False
    """Whether it is aligned to the right, as numbers are."""
    narrowest: int = 0
    """To how many characters cells may be cut where there is no room; 0 for never."""
    by_middle: bool = False
    """Whether a cell that is cut keeps both ends, as with ids, and not just its beginning."""
    is_wanted: bool = False
    """Whether it has the room that there is before the others have it."""
    last_resort: int = 0
    """It is left out where there is no room, the column with the highest number first; 0 for never.
    Columns that say nothing go before all others."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a column."""

    text: str
    colour: str = ""
    """Of the terminal's colours; empty for none."""


Row = Sequence[Cell | str]


def table_lines(
    columns: Sequence[Column],
    rows: Sequence[Row],
    width: int | None = None,
    colours: Colours = PLAIN,
) -> Iterator[str]:
    """A head and a line for each row.

    Args:
        columns: from left to right.
        rows: a cell for each column; empty ones say that there is nothing to tell.
        width: characters of a line; None for any number of them.
        colours: those of the terminal.
    """
    cells = [[_cell(each) for each in row] for row in rows]
    empty = {n for n in range(len(columns)) if all(row[n].text == NOTHING for row in cells)}
    widths = _fit(columns, _natural(columns, cells), empty, width)
    shown = [n for n, each in enumerate(widths) if each]
    heads = [Cell(column.head, colours.bold) for column in columns]
    for row in [heads, *cells]:
        parts = [_padded(row[n], columns[n], widths[n], colours) for n in shown]
        yield GAP.join(parts).rstrip()


def _cell(given: Cell | str) -> Cell:
    cell = given if isinstance(given, Cell) else Cell(given)
    return Cell(one_line(cell.text), cell.colour) if cell.text else Cell(NOTHING)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max([len(column.head), *(len(row[n].text) for row in rows)])
        for n, column in enumerate(columns)
    ]


def _fit(
    columns: Sequence[Column], natural: list[int], empty: AbstractSet[int], limit: int | None
) -> list[int]:
    """The width of each column; 0 for those that are left out.

    Args:
        columns: from left to right.
        natural: as wide as their widest cells.
        empty: those that say nothing; they have what the others leave.
        limit: characters of a line.
    """
    if limit is None:
        return natural
    least = [_least(column, width) for column, width in zip(columns, natural, strict=True)]
    widths = [
        0 if column.last_resort else width for column, width in zip(columns, least, strict=True)
    ]
    optional = [n for n, column in enumerate(columns) if column.last_resort]
    optional.sort(key=lambda n: columns[n].last_resort)
    for n in optional:
        if n not in empty:
            widths = _with(widths, n, least[n], limit)
    wanted = [w if column.is_wanted else 0 for w, column in zip(natural, columns, strict=True)]
    widths = _widened(widths, wanted, limit - _total(widths))
    widths = _widened(widths, natural, limit - _total(widths))
    for n in optional:
        if n in empty:
            widths = _with(widths, n, natural[n], limit)
    return widths


def _with(widths: list[int], n: int, width: int, limit: int) -> list[int]:
    """The widths with one more column, if there is room for it."""
    more = [*widths[:n], width, *widths[n + 1 :]]
    return more if _total(more) <= limit else widths


def _least(column: Column, natural: int) -> int:
    if not column.narrowest:
        return natural
    return min(natural, max(column.narrowest, len(column.head)))


def _total(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + len(GAP) * max(len(shown) - 1, 0)


def _widened(widths: list[int], widest: Sequence[int], room: int) -> list[int]:
    """Gives the room that is left to the columns that are cut, the narrowest first."""
    widened = list(widths)
    for _ in range(room):
        cut = [n for n, width in enumerate(widened) if 0 < width < widest[n]]
        if not cut:
            break
        widened[min(cut, key=lambda n: widened[n])] += 1
    return widened


def _padded(cell: Cell, column: Column, width: int, colours: Colours) -> str:
    text = shortened(cell.text, width, by_middle=column.by_middle)
    space = " " * (width - len(text))
    painted = colours.paint(cell.colour, text)
    return space + painted if column.right else painted + space


def shortened(text: str, width: int, *, by_middle: bool = False) -> str:
    """The text with its end left out where it is too long, or its middle.

    Args:
        text: of a cell.
        width: of its column.
        by_middle: whether both ends tell more than the middle.
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2 if by_middle else 0
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]
