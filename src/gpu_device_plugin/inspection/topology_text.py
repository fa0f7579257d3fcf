"""The topology as text for terminals."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.inspection.text import PLAIN, Colours
from gpu_device_plugin.inspection.topology_choice import Choice
from gpu_device_plugin.inspection.topology_groups import find_groups
from gpu_device_plugin.inspection.topology_model import ITSELF, SYSTEM, UNKNOWN, Pair, Topology
from gpu_device_plugin.inspection.topology_words import (
    choice_lines,
    group_name,
    headline,
    legend,
    named,
    state,
)

NEAR = 20
"""The farthest level without a host bridge."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Where the text goes."""

    columns: int | None = 80
    """Width; None for any."""
    colours: Colours = PLAIN


def text_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """Everything, in sections with headings."""
    bold = screen.colours.bold
    yield from _wrapped("", headline(topology), screen)
    yield ""
    yield from _gpu_lines(topology, choice, screen)
    if topology.count > 1:
        yield from ("", screen.colours.paint(bold, "Links"))
        yield from _links(topology, choice, screen)
        yield from ("", screen.colours.paint(bold, "Scores"))
        yield from _scores(topology, choice, screen)
        yield from ("", screen.colours.paint(bold, "Groups"))
        yield from _group_lines(topology, screen)
        yield ""
        for word, meaning in legend(topology):
            yield from _wrapped(f"{word:<4}  ", meaning, screen)
    if choice is not None:
        yield from ("", screen.colours.paint(bold, f"Preferred for {choice.request.size}"))
        for about, reason in choice_lines(topology, choice):
            yield from _wrapped(f"{about:<9}  ", reason, screen)


def matrix_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """The links of every two GPUs as ``nvidia-smi topo -m`` shows them, then the scores."""
    yield from _links(topology, choice, screen)
    yield ""
    yield from _scores(topology, choice, screen)


def _wrapped(head: str, text: str, screen: Screen) -> list[str]:
    """A paragraph behind a heading."""
    if screen.columns is None:
        return [head + text]
    return textwrap.wrap(
        text,
        max(40, screen.columns),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    ) or [head]


# ------------------------------------------------------------------ GPUs and groups


def _gpu_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    rows = [("GPU", "PCI", "NUMA", "MODEL", "STATE")]
    rows += [
        (
            str(gpu.index),
            one_line(gpu.sysfs_id) or "-",
            "-" if gpu.numa_node is None else str(gpu.numa_node),
            one_line(gpu.name),
            state(topology, choice, position),
        )
        for position, gpu in enumerate(topology.gpus)
    ]
    if not any(row[4] for row in rows[1:]):
        rows = [(*row[:4], "") for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for position, row in enumerate(rows, -1):
        index, pci, numa, model, about = row
        line = "  ".join(
            (
                index.rjust(widths[0]),
                pci.ljust(widths[1]),
                numa.rjust(widths[2]),
                model.ljust(widths[3]),
                about,
            )
        ).rstrip()
        if position < 0:
            yield screen.colours.paint(screen.colours.bold, line)
        else:
            yield screen.colours.paint(_gpu_colour(choice, position, screen.colours), line)


def _gpu_colour(choice: Choice | None, position: int, colours: Colours) -> str:
    return colours.green if choice is not None and position in choice.chosen else ""


def _group_lines(topology: Topology, screen: Screen) -> Iterator[str]:
    root = find_groups(topology)
    found = [] if root is None else list(root.walk())
    heads = ["  " * depth + group_name(group) for depth, group in found]
    width = max(map(len, heads), default=0)
    for head, (_, group) in zip(heads, found, strict=True):
        yield from _wrapped(f"{head:<{width}}  ", f"GPU {named(topology, group.gpus)}", screen)


# ------------------------------------------------------------------ matrices


def _links(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    return _matrix(topology, choice, screen, ITSELF, lambda pair: pair.word)


def _scores(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    return _matrix(topology, choice, screen, "-", lambda pair: str(pair.score))


def _matrix(
    topology: Topology,
    choice: Choice | None,
    screen: Screen,
    itself: str,
    text_of: Callable[[Pair], str],
) -> Iterator[str]:
    """A cell for every two GPUs; too many columns are divided into blocks of equal width."""
    everyone = range(topology.count)
    pairs = [
        [None if one == other else topology.pair(one, other) for other in everyone]
        for one in everyone
    ]
    cells = [[itself if pair is None else text_of(pair) for pair in row] for row in pairs]
    widest = max((len(cell) for row in cells for cell in row), default=0)
    heads, width = _heads(topology, widest, screen)
    margin = max(map(len, heads), default=0)
    for block in _blocks(topology.count, margin, width, screen):
        if block.start:
            yield ""
        line = [" " * margin]
        for other in block:
            line.append(_painted(heads[other].rjust(width), _gpu_colour(choice, other, screen.colours), screen))
        yield "".join(line)
        for one in everyone:
            line = [_painted(heads[one].ljust(margin), _gpu_colour(choice, one, screen.colours), screen)]
            for other in block:
                colour = _pair_colour(pairs[one][other], screen.colours)
                line.append(_painted(cells[one][other].rjust(width), colour, screen))
            yield "".join(line)
