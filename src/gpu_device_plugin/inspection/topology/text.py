"""The topology as text for terminals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gpu_device_plugin.config.text import count, one_line
from gpu_device_plugin.console.screen import Screen
from gpu_device_plugin.inspection.topology.choice import Choice
from gpu_device_plugin.inspection.topology.groups import find_groups
from gpu_device_plugin.inspection.topology.matrix import gpu_colour, link_lines, score_lines
from gpu_device_plugin.inspection.topology.model import Topology
from gpu_device_plugin.inspection.topology.words import (
    choice_lines,
    group_name,
    headline,
    legend,
    named,
    state,
)

_NARROWEST = 40
"""Columns below which paragraphs are not made narrower."""
_NARROWEST_MODEL = 12
"""Columns that the name of a model has at least."""
_GAP = "  "


def text_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """Everything, in sections with headings."""
    yield from _paragraph("", headline(topology), screen)
    if topology.count:
        yield ""
        yield from _gpu_lines(topology, choice, screen)
    if topology.count > 1:
        yield from _heading("Links", screen)
        yield from link_lines(topology, choice, screen)
        yield from _heading("Scores", screen)
        yield from score_lines(topology, choice, screen)
        yield from _heading("Groups", screen)
        yield from _group_lines(topology, screen)
        yield ""
        for word, meaning in legend(topology):
            yield from _paragraph(f"{word:<4}  ", meaning, screen)
    if choice is not None:
        yield from _heading(f"Preferred for {count(choice.request.size, 'GPU')}", screen)
        for about, reason in choice_lines(topology, choice):
            yield from _paragraph(f"{about:<9}  ", reason, screen)


def _heading(text: str, screen: Screen) -> tuple[str, str]:
    return "", screen.colours.paint(screen.colours.bold, text)


def _paragraph(head: str, text: str, screen: Screen) -> list[str]:
    """Lines of text, the later ones below the beginning of the text in the first."""
    if screen.columns is None:
        return [head + text]
    return textwrap.wrap(
        text,
        max(_NARROWEST, screen.columns),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def _gpu_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """A line for each GPU, below headings; names of models are cut where they do not fit."""
    rows = [
        (
            str(gpu.index),
            one_line(gpu.sysfs_id) or "-",
            "-" if gpu.numa_node is None else str(gpu.numa_node),
            one_line(gpu.name),
            state(topology, choice, position),
        )
        for position, gpu in enumerate(topology.gpus)
    ]
    heads = ("GPU", "PCI", "NUMA", "MODEL", "STATE" if any(row[4] for row in rows) else "")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if screen.columns is not None:
        others = sum(widths) - widths[3] + len(_GAP) * (4 if widths[4] else 3)
        widths[3] = min(widths[3], max(_NARROWEST_MODEL, screen.columns - others))
    colours = screen.colours
    yield colours.paint(colours.bold, _row(heads, widths))
    for position, row in enumerate(rows):
        yield colours.paint(gpu_colour(choice, position, colours), _row(row, widths))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Cells beside each other: the index and the NUMA node to the right, all else to the left."""
    index, pci, numa, model, about = cells
    if len(model) > widths[3]:
        model = model[: widths[3] - 1] + "…"
    parts = (
        index.rjust(widths[0]),
        pci.ljust(widths[1]),
        numa.rjust(widths[2]),
        model.ljust(widths[3]),
        about,
    )
    return _GAP.join(parts).rstrip()


def _group_lines(topology: Topology, screen: Screen) -> Iterator[str]:
    """A line for each group, those within another one indented."""
    root = find_groups(topology)
    found = [] if root is None else list(root.walk())
    heads = ["  " * depth + group_name(group) for depth, group in found]
    width = max(map(len, heads), default=0)
    for head, (_, group) in zip(heads, found, strict=True):
        yield from _paragraph(f"{head:<{width}}  ", f"GPU {named(topology, group.gpus)}", screen)
