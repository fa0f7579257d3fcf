"""A report on labels as a table, as data, and as the file that would be written."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.console.data import DATA_FORMS, data_text
from gpu_device_plugin.console.screen import Screen
from gpu_device_plugin.inspection.labels_report import Report
from gpu_device_plugin.labels.keys import PREFIX
from gpu_device_plugin.labels.output import render as render_file

_GAP = "  "
_HEADS = (f"LABEL {PREFIX}", "VALUE", "FROM")
_EMPTY = "(empty)"
_NARROWEST = 40
"""Columns that sources have at least: room for the longest name of a function, after "NVML"."""


def render(report: Report, form: str, where: Screen) -> str:
    """The report as ``json``, ``yaml``, ``text`` (the file), or as a table for a terminal."""
    if form in DATA_FORMS:
        return data_text(report.to_dict(), form)
    if form == "text":
        return render_file(report.published)
    return "".join(f"{line}\n" for line in table_lines(report, where))


def table_lines(report: Report, where: Screen) -> Iterator[str]:
    """Labels without their prefix, values and sources, which are wrapped where they do not fit."""
    rows = [(row.key, row.value or _EMPTY, one_line(row.source)) for row in report.rows]
    if not rows:
        return
    width, value_width = (
        max(map(len, column)) for column in [*zip(_HEADS, *rows, strict=True)][:2]
    )
    if where.columns is not None:
        room = where.columns - width - 2 * len(_GAP) - _NARROWEST
        value_width = max(len(_HEADS[1]), min(value_width, room))
    indent = width + value_width + 2 * len(_GAP)
    head, *_ = _row_lines(_HEADS, width, indent, None)
    yield where.colours.paint(where.colours.bold, head)
    for row in rows:
        yield from _row_lines(row, width, indent, where.columns)


def _row_lines(
    row: tuple[str, str, str], width: int, indent: int, columns: int | None
) -> Iterator[str]:
    """A row; its source begins in the next line if the value is too long for its column."""
    key, value, source = row
    lines = [source]
    if columns is not None:
        room = max(_NARROWEST, columns - indent)
        lines = textwrap.wrap(source, room, break_long_words=False, break_on_hyphens=False)
    head = f"{key:<{width}}{_GAP}{value}{_GAP}"
    if len(head) <= indent:
        head = f"{head:<{indent}}{lines.pop(0)}" if lines else head
    yield head.rstrip()
    for line in lines:
        yield " " * indent + line
