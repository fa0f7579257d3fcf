"""Where the parts of the picture are: buses above the GPUs, NVLinks below, then the scores.

From the top: how the GPUs are joined by PCI Express, as a tree that hangs down to them; the GPUs
in a row, those of a group together; an arc for each pair with NVLinks; and the scores, each in
the column of its GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.hardware.model import Gpu
from gpu_device_plugin.inspection.topology.groups import Group, find_groups, gpus_of
from gpu_device_plugin.inspection.topology.model import Pair, Topology

MARGIN = 24
ROW_HEADS = 62
"""Room on the left for names of rows."""
CARD_HEIGHT = 66
SMALLEST_CARD = 80
GAP = 10
"""Between two GPUs; groups are farther apart, the more so the larger they are."""
GROUP_GAP = 8
STOREY = 46
"""Between a bus and that of the next smaller group."""
TOP = 22.0
"""Height of the uppermost bus, whose name needs room above it."""
CHARACTER = 6.7
"""Width of a character of a detail."""

LOWEST_ARC, ARC_STEP, HIGHEST_ARC = 26, 17, 330
"""Depths of arcs: to the neighbour, more for each GPU in between, at most."""
WIDEST_LINK = 9.0


@dataclass(frozen=True, slots=True)
class Bus:
    """What joins the GPUs of a group."""

    group: Group
    left: float
    right: float
    y: float
    drops: tuple[tuple[float, float], ...]
    """The lines down from it: where, and to what height."""

    @property
    def middle(self) -> float:
        """Where the line from above ends and the name stands."""
        return (self.left + self.right) / 2


@dataclass(frozen=True, slots=True)
class Arc:
    """The NVLinks between two GPUs."""

    pair: Pair
    left: float
    right: float
    depth: float
    width: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of all parts."""

    order: tuple[int, ...]
    """GPUs from left to right."""
    centres: tuple[float, ...]
    """Their middles, by position."""
    card: float
    """Width of a GPU."""
    width: float
    buses: tuple[Bus, ...]
    cards_y: float
    arcs: tuple[Arc, ...]

    @property
    def arcs_y(self) -> float:
        """Where the arcs begin."""
        return self.cards_y + CARD_HEIGHT

    @property
    def bottom(self) -> float:
        """Where the arcs end."""
        return self.arcs_y + max((arc.depth for arc in self.arcs), default=0)


def place_text(gpu: Gpu) -> str:
    """Where a GPU is, shortly: its PCI address without a domain that says nothing."""
    return one_line(gpu.sysfs_id.removeprefix("0000:")) or "no PCI address"


def make_layout(topology: Topology) -> Layout:
    """Places the tree, the GPUs and the arcs; heights count from 0 downwards."""
    root = find_groups(topology)
    widest = max((len(place_text(gpu)) for gpu in topology.gpus), default=0)
    card = max(SMALLEST_CARD, widest * CHARACTER + 12)
    members = range(topology.count) if root is None else root.gpus
    centres, right = [0.0] * topology.count, float(MARGIN + ROW_HEADS)
    for number, position in enumerate(members):
        if number:
            right += GAP + GROUP_GAP * _apart(root, members[number - 1], position)
        centres[position] = right + card / 2
        right += card
    depth = 0 if root is None else 1 + max(depth for depth, _ in root.walk())
    cards_y = TOP + depth * STOREY - 8 if depth else 0.0
    buses = () if root is None else _buses(root, centres, TOP, cards_y)
    return Layout(
        order=tuple(members),
        centres=tuple(centres),
        card=card,
        width=right + MARGIN,
        buses=buses,
        cards_y=cards_y,
        arcs=tuple(_arcs(topology, members, centres, card)),
    )


def _apart(member: Group | int | None, one: int, other: int) -> int:
    """How large the groups are that end between two GPUs: levels of groups in them."""
    while isinstance(member, Group):
        within = [part for part in member.members if {one, other}.issubset(gpus_of(part))]
        if not within:
            parts = [part for part in member.members if not {one, other}.isdisjoint(gpus_of(part))]
            return max(map(_height, parts))
        member = within[0]
    return 0


def _height(member: Group | int) -> int:
    return 0 if isinstance(member, int) else 1 + max(map(_height, member.members))


def _buses(group: Group, centres: Sequence[float], y: float, cards_y: float) -> tuple[Bus, ...]:
    """The bus of a group, then those below it; each hangs in the middle of what it joins."""
    drops, lower = list[tuple[float, float]](), list[Bus]()
    for member in group.members:
        if isinstance(member, int):
            drops.append((centres[member], cards_y))
        else:
            below = _buses(member, centres, y + STOREY, cards_y)
            drops.append((below[0].middle, below[0].y))
            lower += below
    places = [place for place, _ in drops]
    return Bus(group, min(places), max(places), y, tuple(drops)), *lower


def _arcs(
    topology: Topology, order: Sequence[int], centres: Sequence[float], card: float
) -> Iterator[Arc]:
    """An arc for each pair with NVLinks, from left to right."""
    place = {position: number for number, position in enumerate(order)}
    pairs = [pair for pair in topology.pairs() if pair.nvlinks]
    ports = _ports(pairs, place, centres, card)
    most = max((pair.nvlinks for pair in pairs), default=1)
    step = min(ARC_STEP, (HIGHEST_ARC - LOWEST_ARC) / max(1, len(order) - 2))
    crowd = max((len([pair for pair in pairs if each in pair.ends]) for each in order), default=1)
    widest = min(WIDEST_LINK, 0.7 * card / max(1, crowd))
    for pair in pairs:
        left, right = sorted((ports[pair.one, pair.other], ports[pair.other, pair.one]))
        span = abs(place[pair.one] - place[pair.other])
        depth = LOWEST_ARC + step * (span - 1)
        yield Arc(pair, left, right, depth, max(1.2, widest * pair.nvlinks / most))


def _ports(
    pairs: Sequence[Pair],
    place: Mapping[int, int],
    centres: Sequence[float],
    card: float,
) -> dict[tuple[int, int], float]:
    """Where the arcs of a GPU leave it: in such an order that they do not cross right there."""
    ports = dict[tuple[int, int], float]()
    for one, here in place.items():
        others = [pair.other if pair.one == one else pair.one for pair in pairs if one in pair.ends]
        left = sorted((each for each in others if place[each] < here), key=lambda e: -place[e])
        right = sorted((each for each in others if place[each] > here), key=lambda e: -place[e])
        step = min(14.0, (card - 10) / max(1, len(others)))
        for number, other in enumerate((*left, *right)):
            ports[one, other] = centres[one] + step * (number - (len(others) - 1) / 2)
    return ports
