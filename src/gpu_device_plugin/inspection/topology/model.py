"""How the GPUs of a node are connected, and what every two of them score.

GPUs are counted by position in all modules of this package, from 0 on and without gaps, as the
allocator counts them; people are shown NVML's indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from gpu_device_plugin.hardware.model import Gpu, Inventory, Links, Platform
from gpu_device_plugin.resources.topology import LEVEL_SCORES, NVLINK_SCORE, PairScores

Levels = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class Nearness:
    """What a common-ancestor level of NVML is called."""

    word: str
    """As ``nvidia-smi topo -m`` writes it; PSB is that of older versions."""
    meaning: str


NEARNESS: Mapping[int, Nearness] = {
    0: Nearness("PSB", "one board"),
    10: Nearness("PIX", "one PCIe switch"),
    20: Nearness("PXB", "several PCIe switches"),
    30: Nearness("PHB", "one PCIe host bridge"),
    40: Nearness("NODE", "one CPU or NUMA node"),
    50: Nearness("SYS", "different CPUs or NUMA nodes"),
}
"""The levels of ``nvmlGpuTopologyLevel_t``, the nearest first."""

SYSTEM = max(NEARNESS)
UNKNOWN = "?"
ITSELF = "X"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two GPUs and what is between them."""

    one: int
    other: int
    level: int | None
    """NVML's common-ancestor level; None if it is not known."""
    nvlinks: int
    """NVLinks that join them directly; those to NVSwitches do not."""
    score: int

    @property
    def ends(self) -> tuple[int, int]:
        """Both GPUs."""
        return self.one, self.other

    @property
    def ancestor(self) -> str:
        """The word for the way through PCI Express."""
        return UNKNOWN if self.level is None else NEARNESS[self.level].word

    @property
    def word(self) -> str:
        """The word for the best connection."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.ancestor


@dataclass(frozen=True, slots=True)
class Topology:
    """The GPUs of a node and all connections between them."""

    gpus: tuple[Gpu, ...]
    scores: PairScores
    levels: Levels = field(default_factory=dict)
    """NVML's level by positions, the smaller one first; what is not known is absent."""
    nvlinks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Direct NVLinks by positions, the smaller one first."""
    offered: tuple[int, ...] = ()
    """GPUs that the plugin chooses among by these scores."""
    resource: str = ""
    """The resource that they belong to; empty if there is none."""
    platform: Platform = Platform.NVML
    driver_version: str = ""
    source: str = ""
    """What the GPUs were read from, if not from this machine."""
    problems: tuple[str, ...] = ()
    """GPUs and links that could not be read."""

    @property
    def count(self) -> int:
        """Number of GPUs."""
        return len(self.gpus)

    def pair(self, one: int, other: int) -> Pair:
        """What is between two different GPUs."""
        first, second = sorted((one, other))
        return Pair(
            first,
            second,
            self.levels.get((first, second)),
            self.nvlinks.get((first, second), 0),
            self.scores.rows[first][second],
        )

    def pairs(self) -> Iterator[Pair]:
        """Every two GPUs."""
        for one, other in combinations(range(self.count), 2):
            yield self.pair(one, other)

    def indices(self, positions: Iterable[int]) -> list[int]:
        """NVML's indices of some GPUs."""
        return [self.gpus[position].index for position in positions]


def make_topology(inventory: Inventory, links: Links, *, source: str = "") -> Topology:
    """Puts together what was read of a node; all its GPUs count as offered.

    The scores are made as the plugin makes them: all GPUs of the node count, in NVML's order.
    """
    at = {gpu.index: position for position, gpu in enumerate(inventory.gpus)}
    levels = _at_positions(links.ancestors, at)
    nvlinks = _at_positions(links.nvlinks, at)
    scores = PairScores.from_links(len(at), levels, nvlinks)
    unreadable = (f"GPU {gpu.index} cannot be read: {gpu.reason}" for gpu in inventory.unreadable)
    unlinked = (f"links are not known: {problem}" for problem in links.problems)
    return Topology(
        gpus=inventory.gpus,
        scores=scores,
        levels=_nearest(levels),
        nvlinks=_most(nvlinks),
        offered=tuple(range(len(at))),
        platform=inventory.platform,
        driver_version=inventory.driver_version,
        source=source,
        problems=(*unreadable, *unlinked),
    )


def _at_positions(values: Levels, at: Mapping[int, int]) -> dict[tuple[int, int], int]:
    return {
        (at[one], at[other]): value
        for (one, other), value in values.items()
        if one in at and other in at and one != other
    }


def _nearest(levels: Levels) -> dict[tuple[int, int], int]:
    """One known level for each pair: that which scores, if its ends do not agree."""
    found = dict[tuple[int, int], int]()
    for (one, other), level in levels.items():
        if level in LEVEL_SCORES:
            pair = min(one, other), max(one, other)
            found[pair] = min(level, found.get(pair, level))
    return found


def _most(nvlinks: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """The NVLinks of each pair, if its ends do not agree those of the end with more."""
    found = dict[tuple[int, int], int]()
    for (one, other), links in nvlinks.items():
        if links > 0:
            pair = min(one, other), max(one, other)
            found[pair] = max(links, found.get(pair, 0))
    return found


def level_score(level: int | None) -> int:
    """What a level adds to the score of two GPUs."""
    return 0 if level is None else LEVEL_SCORES.get(level, 0)


__all__ = [
    "ITSELF",
    "NEARNESS",
    "NVLINK_SCORE",
    "SYSTEM",
    "UNKNOWN",
    "Nearness",
    "Pair",
    "Topology",
    "level_score",
    "make_topology",
]
