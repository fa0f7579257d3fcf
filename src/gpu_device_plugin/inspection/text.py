"""Findings, tables and differences as text for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpu_device_plugin.config.text import count, one_line
from gpu_device_plugin.console.screen import Colours
from gpu_device_plugin.inspection.catalogue import Entry, State
from gpu_device_plugin.inspection.check import Checked
from gpu_device_plugin.inspection.difference import Hunk, Sign
from gpu_device_plugin.inspection.findings import Finding, Severity

_GAP = "  "


def finding_line(finding: Finding, colours: Colours) -> str:
    """A finding with its severity in a colour."""
    colour = colours.red if finding.severity is Severity.ERROR else colours.yellow
    text = str(finding).removeprefix(finding.severity)
    return colours.paint(colour, finding.severity) + text


def device_table(entries: Iterable[Entry], colours: Colours) -> Iterator[str]:
    """A line for each device, below headings."""
    rows = [
        (e.vendor, e.cls, e.device, str(e.nodes), str(e.mounts), str(e.hooks), e.state, e.file)
        for e in entries
    ]
    heads = ("VENDOR", "CLASS", "DEVICE", "NODES", "MOUNTS", "HOOKS", "STATE", "FILE")
    head, *lines = _table([heads, *rows])
    yield colours.paint(colours.bold, head)
    for row, line in zip(rows, lines, strict=True):
        colour = {State.CONFLICT: colours.red, State.SHADOWED: colours.yellow}.get(State(row[6]))
        yield colours.paint(colour or "", line)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows with their columns aligned: numbers to the right, all else to the left."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = [all(re.fullmatch("[0-9]+", row[i]) for row in cells[1:]) for i in range(len(widths))]
    for row in cells:
        padded = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numbers, strict=True)
        )
        yield _GAP.join(padded).rstrip()


def difference_lines(
    before: str, after: str, hunks: Iterable[Hunk], colours: Colours
) -> Iterator[str]:
    """A unified difference.

    Args:
        before: what the lines with a minus are from.
        after: what the lines with a plus are from.
        hunks: the differences.
        colours: those of the terminal.
    """
    yield colours.paint(colours.bold, f"--- {one_line(before)}")
    yield colours.paint(colours.bold, f"+++ {one_line(after)}")
    signs = {Sign.BEFORE: colours.red, Sign.AFTER: colours.green, Sign.BOTH: ""}
    for hunk in hunks:
        yield colours.paint(colours.cyan, f"@@ {hunk.title} @@")
        for change in hunk.changes:
            yield colours.paint(signs[change.sign], f"{change.sign}{one_line(change.text)}")


def result_line(checked: Checked) -> str:
    """What came out for one file."""
    errors, warnings = (checked.count(severity) for severity in Severity)
    parts = [count(errors, "error")] if errors else []
    if checked.spec is not None:
        parts.append(count(len(checked.spec.devices), "device"))
    if warnings:
        parts.append(count(warnings, "warning"))
    verdict = "" if errors or warnings else "ok, "
    return f"{one_line(checked.file)}: {verdict}{', '.join(parts)}"
