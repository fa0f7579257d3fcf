"""Which GPUs a container should get: those that are connected best.

The aim is that of k8s-device-plugin v0.19.3 (the best-effort policy of its go-gpuallocator): of
all ways to divide the available GPUs into sets of the size asked for, take the one with the
highest score, so that the containers to come are served well too, and from that the best set.
Of equal ones the first in the reference's order wins. Three of its faults are not kept: it loses
the best partition into seven or eight sets, it crashes if the padding of an uneven division ends
up in the best set, and it crashes if two GPUs report different numbers of links to each other.

The reference looks at every partition, up to 22 million for 16 GPUs. Three searches share that
here: one for connections that form a tree, one for any others between up to 16 GPUs, and one
that finds a good partition, not always the best, where both would take too long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from gpu_device_plugin.resources.topology_subsets import SMALL, SubsetSearch
from gpu_device_plugin.resources.topology_swaps import SwapSearch
from gpu_device_plugin.resources.topology_tree import TreeSearch

MOST_GPUS = 64
"""GPUs of a node; NVIDIA's driver serves no more."""

LEVEL_SCORES: Mapping[int, int] = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
"""Score of two GPUs by their common ancestor (``nvmlGpuTopologyLevel_t``): same board, one PCIe
switch, several switches, host bridge, same CPU, different CPUs."""

NVLINK_SCORE = 100
"""What an NVLink adds to the score of the two GPUs that it joins directly."""

MOST_NVLINKS = 18
"""NVLinks between two GPUs that count."""


@dataclass(frozen=True, slots=True)
class PairScores:
    """How well every two GPUs of a node are connected, by their position from 0 on."""

    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        count = len(self.rows)
        if count > MOST_GPUS:
            raise ValueError(f"{count} GPUs are more than the {MOST_GPUS} of a node")
        if any(len(row) != count for row in self.rows):
            raise ValueError("scores are not a square matrix")
        for one, row in enumerate(self.rows):
            if row[one] or any(row[other] != self.rows[other][one] for other in range(one)):
                raise ValueError(f"scores of GPU {one} are not symmetric with a zero diagonal")
            if min(row) < 0:
                raise ValueError(f"scores of GPU {one} are below zero")

    @classmethod
    def from_links(
        cls,
        count: int,
        levels: Mapping[tuple[int, int], int | None],
        nvlinks: Mapping[tuple[int, int], int] | None = None,
    ) -> PairScores:
        """Scores of what NVML reports.

        Args:
            count: number of GPUs.
            levels: common-ancestor level of ordered pairs. What is absent, None or no level that
                NVML knows scores nothing. One direction is enough.
            nvlinks: active NVLinks that the first of a pair reports to the second. If only one
                end of a link is reported it counts all the same.
        """
        rows = [[0] * count for _ in range(count)]
        for one, other in permutations(range(count), 2):
            ends = (one, other), (other, one)
            level = max([_level_score(levels.get(end)) for end in ends])
            links = max([nvlinks.get(end, 0) for end in ends]) if nvlinks else 0
            rows[one][other] = level + NVLINK_SCORE * min(links, MOST_NVLINKS)
        return cls(tuple(map(tuple, rows)))

    @property
    def count(self) -> int:
        """Number of GPUs."""
        return len(self.rows)

    def within(self, members: Iterable[int]) -> int:
        """The score of a set: the sum over its pairs."""
        return sum([self.rows[one][other] for one, other in combinations(members, 2)])

    def among(self, members: Sequence[int]) -> PairScores:
        """The scores of some GPUs, whose positions are counted anew from 0."""
        rows = [tuple([self.rows[one][other] for other in members]) for one in members]
        return PairScores(tuple(rows))


def _level_score(level: int | None) -> int:
    return 0 if level is None else LEVEL_SCORES.get(level, 0)


class TopologyAllocator:
    """Answers which GPUs to prefer on one node.

    Answers are exact, ties included, and take mostly under a millisecond and seldom 2 ms, for

    * connections that form a tree of some regularity, on up to 64 GPUs: PCI Express without
      direct NVLinks, or with NVLinks between neighbours. On 16 GPUs the first request for a size
      may take 5 ms, on more 20 ms, unless prepared;
    * any connections between up to 12 GPUs. The first request for a size may take 7 ms;
    * any connections between up to 16 GPUs if at least half of the available ones are asked for,
      or after `preparation`.

    What remains, an irregular mesh of many GPUs, gets a good answer within 10 ms: sets to which
    no swap of two GPUs brings an improvement.
    """

    def __init__(self, scores: PairScores) -> None:
        self.scores = scores
        self._search = TreeSearch.of(scores.rows) or SubsetSearch.of(scores.rows)
        self._swaps = SwapSearch(scores.rows)

    @property
    def work(self) -> int:
        """Steps of searching so far, for tests and benchmarks."""
        return self._swaps.work + (self._search.work if self._search else 0)

    def preparation(self) -> Iterator[None]:
        """Makes tables that later answers look up, with a pause about every millisecond.

        Takes up to 2 s and 18 MiB in all for an irregular mesh of 16 GPUs, next to nothing for
        other machines. An event loop can run it pause by pause, and abandon it at any.
        """
        if self._search is not None:
            sizes = range(2, self.scores.count)
            # Powers of two first: that is what containers ask for.
            for size in sorted(sizes, key=lambda size: (size & (size - 1) != 0, size)):
                yield from self._search.prepare(size)

    def prepare(
        self,
        limit_s: float = 2.0,
        *,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> bool:
        """Runs the preparation at one go; other threads may ask for answers meanwhile.

        Args:
            limit_s: seconds after which it is abandoned; what is ready by then is used.
            stopped: asked at each pause; true abandons it.
            clock: the time in seconds.

        Returns:
            Whether everything is prepared.
        """
        end = clock() + limit_s
        return not any(stopped() or clock() >= end for _ in self.preparation())

    def prefer(
        self, available: Sequence[int], required: Sequence[int], size: int
    ) -> tuple[int, ...]:
        """The GPUs to prefer, in the order in which they are available.

        Args:
            available: positions to choose from; their order decides between equal sets.
                Repeated ones count once.
            required: positions that must be among the chosen ones.
            size: how many to choose.

        Returns:
            The positions, or nothing if there is no such set.

        Raises:
            ValueError: if there is no GPU at an available position.
        """
        order, must = tuple(dict.fromkeys(available)), frozenset(required)
        if order and not 0 <= min(order) <= max(order) < self.scores.count:
            raise ValueError(f"no such GPUs: {order} of {self.scores.count}")
        if not 0 < size <= len(order) or len(must) > size or not must.issubset(order):
            return ()
        if size == len(order):
            return order
        if len(must) == size:
            return tuple([position for position in order if position in must])
        if size == 1:
            return order[:1]
        if self._search is not None and self._search.is_quick(len(order), size):
            sets = self._search.candidates(order, must, size)
        elif len(order) <= SMALL:
            return self._prefer_apart(order, must, size)
        else:
            sets = self._swaps.candidates(order, must, size)
        return tuple(max(sets, key=self.scores.within))

    def _prefer_apart(
        self, order: tuple[int, ...], must: frozenset[int], size: int
    ) -> tuple[int, ...]:
        """Searches as if there were no other GPUs than the available ones."""
        part = TopologyAllocator(self.scores.among(order))
        needed = [place for place, position in enumerate(order) if position in must]
        return tuple([order[place] for place in part.prefer(range(len(order)), needed, size)])
