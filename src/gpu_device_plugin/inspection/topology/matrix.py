"""Links and scores of every two GPUs as matrices for terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

from gpu_device_plugin.console.screen import Colours, Screen
from gpu_device_plugin.inspection.topology.choice import Choice
from gpu_device_plugin.inspection.topology.model import ITSELF, SYSTEM, Pair, Topology

FARTHEST_SWITCH = 20
"""The farthest of NVML's levels at which two GPUs meet without a host bridge."""

ITS_OWN_SCORE = "-"


@dataclass(frozen=True, slots=True)
class _Form:
    """The widths of a matrix."""

    heads: tuple[str, ...]
    margin: int
    width: int
    """Of a column, with the space before it."""
    blocks: tuple[range, ...]
    """The columns that stand beside each other."""


def matrix_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """The links of every two GPUs as ``nvidia-smi topo -m`` shows them, then the scores."""
    yield from link_lines(topology, choice, screen)
    yield ""
    yield from score_lines(topology, choice, screen)


def link_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """The best connection of every two GPUs."""
    return _lines(topology, choice, screen, ITSELF, lambda pair: pair.word)


def score_lines(topology: Topology, choice: Choice | None, screen: Screen) -> Iterator[str]:
    """The score of every two GPUs."""
    return _lines(topology, choice, screen, ITS_OWN_SCORE, lambda pair: str(pair.score))


def gpu_colour(choice: Choice | None, position: int, colours: Colours) -> str:
    """What makes a GPU stand out that would be chosen."""
    return colours.green if choice is not None and position in choice.chosen else ""


def _lines(
    topology: Topology,
    choice: Choice | None,
    screen: Screen,
    itself: str,
    text_of: Callable[[Pair], str],
) -> Iterator[str]:
    """A cell for every two GPUs; columns that do not fit beside the others come below them."""
    colours = screen.colours
    texts = {(pair.one, pair.other): text_of(pair) for pair in topology.pairs()}
    form = _form(topology, max(map(len, texts.values()), default=1), screen)

    def head(position: int, text: str) -> str:
        return _painted(gpu_colour(choice, position, colours), text, colours)

    def cell(one: int, other: int) -> str:
        if one == other:
            return itself.rjust(form.width)
        text = texts[min(one, other), max(one, other)].rjust(form.width)
        return _painted(_pair_colour(topology.pair(one, other), colours), text, colours)

    for block in form.blocks:
        if block.start:
            yield ""
        columns = (head(other, form.heads[other].rjust(form.width)) for other in block)
        yield " " * form.margin + "".join(columns)
        for one in range(topology.count):
            cells = (cell(one, other) for other in block)
            yield head(one, form.heads[one].rjust(form.margin)) + "".join(cells)


def _form(topology: Topology, widest: int, screen: Screen) -> _Form:
    """Heads as nvidia-smi has them if everything fits then, else shorter ones, else blocks."""
    count, indices = topology.count, topology.indices(range(topology.count))
    limit = screen.columns
    for prefix in ("GPU", ""):
        heads = tuple([f"{prefix}{index}" for index in indices])
        margin = max(map(len, heads), default=0)
        width = max(widest, margin) + 1
        if limit is None or margin + count * width <= limit:
            return _Form(heads, margin, width, (range(count),))
    columns = max(1, ((limit or 0) - margin) // width)
    columns = ceil(count / ceil(count / columns))  # blocks of equal width
    blocks = [range(start, min(start + columns, count)) for start in range(0, count, columns)]
    return _Form(heads, margin, width, tuple(blocks))


def _pair_colour(pair: Pair, colours: Colours) -> str:
    """By how the two are connected: NVLinks, PCIe switches only, different CPUs, not known."""
    if pair.nvlinks:
        return colours.green
    if pair.level is None:
        return colours.red
    if pair.level <= FARTHEST_SWITCH:
        return colours.cyan
    return colours.yellow if pair.level == SYSTEM else ""


def _painted(colour: str, text: str, colours: Colours) -> str:
    """The text in a colour, the spaces before and behind it left alone."""
    word = text.strip()
    return text.replace(word, colours.paint(colour, word)) if word else text
