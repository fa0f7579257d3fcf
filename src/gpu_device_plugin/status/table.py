"""Tables for terminals: columns aligned, narrowed or left out where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.inspection.text import PLAIN, Colours

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
    last_resort: int = 0
    """Where it does not fit even so: columns with the highest number go first; 0 for never."""


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
    widths = _fit(columns, _natural(columns, cells), width)
    shown = [n for n, each in enumerate(widths) if each]
    heads = [Cell(column.head, colours.bold) for column in columns]
    for row in [heads, *cells]:
        parts = [_padded(row[n], columns[n], widths[n], colours) for n in shown]
        yield GAP.join(parts).rstrip()


def _cell(given: Cell | str) -> Cell:
    cell = given if isinstance(given, Cell) else Cell(given)
    return Cell(one_line(cell.text) or NOTHING, cell.colour)


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> list[int]:
    return [
        max([len(column.head), *(len(row[n].text) for row in rows)])
        for n, column in enumerate(columns)
    ]


def _fit(columns: Sequence[Column], widths: list[int], limit: int | None) -> list[int]:
    """The width of each column; 0 for those that are left out."""
    fitted = list(widths)
    if limit is None:
        return fitted
    leaving = sorted(
        (n for n, column in enumerate(columns) if column.last_resort),
        key=lambda n: -columns[n].last_resort,
    )
    while (over := _total(fitted) - limit) > 0:
        spare = {
            n: room for n, column in enumerate(columns) if (room := _spare(column, fitted[n])) > 0
        }
        if sum(spare.values()) >= over:
            return _narrowed(fitted, spare, over)
        if not leaving:
            return _narrowed(fitted, spare, sum(spare.values()))
        fitted[leaving.pop(0)] = 0
    return fitted


def _total(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + len(GAP) * max(len(shown) - 1, 0)


def _spare(column: Column, width: int) -> int:
    """By how much a column can be narrowed."""
    return width - max(column.narrowest, len(column.head)) if column.narrowest and width else 0


def _narrowed(widths: list[int], spare: dict[int, int], over: int) -> list[int]:
    """Takes what is too much from the widest columns first."""
    narrowed = list(widths)
    for _ in range(over):
        n = max((n for n, room in spare.items() if room), key=lambda n: narrowed[n])
        narrowed[n] -= 1
        spare[n] -= 1
    return narrowed


def _padded(cell: Cell, column: Column, width: int, colours: Colours) -> str:
    text = shortened(cell.text, width)
    space = " " * (width - len(text))
    painted = colours.paint(cell.colour, text)
    return space + painted if column.right else painted + space


def shortened(text: str, width: int) -> str:
    """The text with its middle left out where it is too long: both ends tell devices apart."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + ELLIPSIS + text[len(text) - tail :]
