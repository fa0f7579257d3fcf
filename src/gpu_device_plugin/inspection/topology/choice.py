"""The GPUs that the plugin would prefer, and why these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from gpu_device_plugin.config.text import count
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.topology.model import Topology
from gpu_device_plugin.plugin.preference import PREPARE_SECONDS
from gpu_device_plugin.resources.topology import PairScores, TopologyAllocator
from gpu_device_plugin.resources.topology_subsets import MOST, SMALL
from gpu_device_plugin.resources.topology_tree import TreeSearch

MOST_SETS = 20_000
"""Sets that are looked at for others as good as the preferred one; 8 of 16 GPUs are 12,870."""
MOST_PARTITIONS = 64
"""Partitions that are searched for that; each takes some milliseconds."""

Positions = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What the kubelet would ask for."""

    available: Positions
    """Their order decides between equal sets."""
    required: Positions
    size: int


@dataclass(frozen=True, slots=True)
class Division:
    """A way to divide the available GPUs into sets."""

    sets: tuple[Positions, ...]
    """The first is the one that it is about; the last may be smaller than asked for."""
    total: int
    """The sum of their scores."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer to a request."""

    request: Request
    chosen: Positions
    score: int
    division: Division
    """The chosen set and how the other GPUs are divided best."""
    is_exact: bool
    """Whether no other division has a higher total; if not, one may have."""
    equals: tuple[Positions, ...] = ()
    """Other sets with the same score and as good a division, in the order of the request."""
    knows_all_equals: bool = True
    """Whether there are no more of them."""
    rival: Division | None = None
    """Division with the set that has the highest score, if that is not the chosen one."""


def choose(topology: Topology, request: Request) -> Choice:
    """Asks the plugin's allocator, and looks for the reasons.

    Raises:
        ConfigError: there is no such set.
    """
    _check(topology, request)
    return _Reasons(topology.scores, request).choice()


def _check(topology: Topology, request: Request) -> None:
    available = set(request.available)
    if request.size > len(available):
        have = f"available: {len(available)}" if available else "none is available"
        raise ConfigError(f"{count(request.size, 'GPU')} cannot be chosen: {have}")
    missing = sorted(topology.indices(set(request.required) - available))
    if missing:
        raise ConfigError(
            f"GPU {', '.join(map(str, missing))} cannot be required: it is not available"
        )
    if len(set(request.required)) > request.size:
        raise ConfigError(
            f"{len(set(request.required))} GPUs are required, but {request.size} asked for"
        )


class _Reasons:
    """The answer to one request, and the searches for what explains it."""

    def __init__(self, scores: PairScores, request: Request) -> None:
        self._scores, self._request = scores, request
        self._order = tuple(dict.fromkeys(request.available))
        self._allocator = TopologyAllocator(scores)
        is_ready = self._allocator.prepare(PREPARE_SECONDS)
        self._is_exact = _is_exact(scores, len(self._order), request.size, is_ready=is_ready)
        self._totals = dict[Positions, int]()
        self._alike = _alike(scores)

    def choice(self) -> Choice:
        """The answer with all that explains it."""
        request, within = self._request, self._scores.within
        chosen = self._allocator.prefer(self._order, request.required, request.size)
        division = self._division(chosen)
        free = len(self._order) - len(set(request.required))
        sets = comb(free, request.size - len(set(request.required)))
        if self._is_exact and sets <= MOST_SETS:
            equals, rival, is_all = self._compare(chosen, division.total)
        else:
            # Whichever set of one division is taken, the division stays the same.
            others = () if request.required else division.sets[1:]
            equals = [part for part in others if within(part) == within(chosen)]
            equals = [part for part in equals if len(part) == request.size]
            rival, is_all = None, sets == 1
        return Choice(
            request=request,
            chosen=chosen,
            score=within(chosen),
            division=division,
            is_exact=self._is_exact,
            equals=tuple(equals),
            knows_all_equals=is_all,
            rival=rival,
        )

    def _compare(
        self, chosen: Positions, total: int
    ) -> tuple[list[Positions], Division | None, bool]:
        """Sets that are as good, the division of a set that scores more, and whether that is all."""
        within, score = self._scores.within, self._scores.within(chosen)
        equals, is_all = list[Positions](), True
        best, best_score = chosen, score
        for part in self._sets():
            value = within(part)
            if value > best_score:
                best, best_score = part, value
            if value != score or part == chosen:
                continue
            rest_total = self._rest_total(part)
            if rest_total is None:
                is_all = False
            elif value + rest_total == total:
                equals.append(part)
        return equals, None if best == chosen else self._division(best), is_all

    def _sets(self) -> Sequence[Positions]:
        """All sets that meet the request, in the order in which the allocator prefers equal ones."""
        required = set(self._request.required)
        free = [each for each in self._order if each not in required]
        places = {each: place for place, each in enumerate(self._order)}
        return [
            tuple(sorted((*required, *part), key=places.__getitem__))
            for part in combinations(free, self._request.size - len(required))
        ]

    def _division(self, first: Positions) -> Division:
        """The best division that has a certain set: each further set is the one preferred then."""
        sets, rest = [first], self._without(first)
        while rest:
            size = min(self._request.size, len(rest))
            sets.append(self._allocator.prefer(rest, (), size))
            rest = tuple(each for each in rest if each not in sets[-1])
        return Division(tuple(sets), sum(map(self._scores.within, sets)))

    def _rest_total(self, part: Positions) -> int | None:
        """The best total of what a set leaves over; None after too many of these searches."""
        left = [0] * len(self._alike)
        for each in self._without(part):
            left[self._alike[each]] += 1
        key = tuple(left)
        if key not in self._totals:
            if len(self._totals) == MOST_PARTITIONS:
                return None
            self._totals[key] = self._division(part).total - self._scores.within(part)
        return self._totals[key]

    def _without(self, part: Positions) -> Positions:
        return tuple(each for each in self._order if each not in part)


def _is_exact(scores: PairScores, available: int, size: int, *, is_ready: bool) -> bool:
    """Whether the allocator finds the best division (see `TopologyAllocator`)."""
    if size in {1, available} or available <= SMALL or TreeSearch.of(scores.rows):
        return True
    return scores.count <= MOST and (is_ready or available <= 2 * size)


def _alike(scores: PairScores) -> list[int]:
    """For each GPU the first one that could take its place without changing any score."""
    rows = scores.rows

    def interchangeable(one: int, other: int) -> bool:
        return all(
            rows[one][each] == rows[other][each]
            for each in range(scores.count)
            if each not in {one, other}
        )

    return [
        next(one for one in range(other + 1) if one == other or interchangeable(one, other))
        for other in range(scores.count)
    ]
