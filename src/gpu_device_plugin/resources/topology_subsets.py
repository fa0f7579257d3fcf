"""Best partitions of up to 16 GPUs with scores that follow no pattern, as with NVLink meshes.

Works on sets of GPUs as bits of a number. What remains after a set has been chosen is looked up
in a table of all sets of GPUs; there is one for each size asked for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import cache

MOST = 16
"""GPUs that there is room for: a table takes 2.5 MiB then, and six sizes need one."""

SMALL = 12
"""GPUs for which a table is made in a few milliseconds, so when it is needed."""

_PAUSE = 32
"""Entries of a table between two pauses in making it: under a millisecond."""

_LOW_BITS = 8
_LOW = (1 << _LOW_BITS) - 1
"""Sets are handled in two halves, as lists by half are short enough to be kept."""


def _sums(weights: Sequence[int]) -> list[int]:
    """The sum of weights of every subset."""
    sums = [0]
    for weight in weights:
        sums += [known + weight for known in sums]
    return sums


class _Request:
    """What is asked for, and in which order the reference meets sets of GPUs."""

    def __init__(self, order: Sequence[int], required: frozenset[int], size: int) -> None:
        self.order, self.size = order, size
        self.required = sum(1 << position for position in required)
        self._padding = -len(order) % size
        # The first available GPU is the highest bit of a rank; padding has the lowest ones.
        weights = [0] * MOST
        for place, position in enumerate(reversed(order)):
            weights[position] = 1 << (place + self._padding)
        self._low, self._high = _sums(weights[:_LOW_BITS]), _sums(weights[_LOW_BITS:])

    def first(self, subset: int) -> int:
        """The first available GPU of a set."""
        return next(1 << position for position in self.order if subset >> position & 1)

    def rank(self, subset: int) -> int:
        """A number that is greater the earlier the reference meets a set."""
        rank = self._low[subset & _LOW] | self._high[subset >> _LOW_BITS]
        return rank if subset.bit_count() == self.size else rank | (1 << self._padding) - 1

    def positions(self, subset: int) -> list[int]:
        """The members of a set, in order."""
        return [position for position in self.order if subset >> position & 1]


class SubsetSearch:
    """Finds preferred sets on a machine with any scores."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.work = 0
        """Sets looked at so far."""
        self._count = len(rows)
        self._within = [0]
        for position, row in enumerate(rows):
            near = _sums(row[:position])
            self._within += [a + b for a, b in zip(self._within, near, strict=True)]
        self._tables = dict[int, list[int]]()
        self._by_size = cache(_by_size)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> SubsetSearch | None:
        """The search for a matrix of scores, if it is not too large."""
        return cls(rows) if len(rows) <= MOST else None

    def is_quick(self, available: int, size: int) -> bool:
        """Whether a request is answered within milliseconds."""
        return available <= 2 * size or self._table(size) is not None or self._count <= SMALL

    def prepare(self, size: int) -> Iterator[None]:
        """Makes the table for a size, with pauses."""
        if self._table(size) is None:
            self._tables[size] = yield from _fill(self._within, self._count, size)

    def candidates(
        self, order: Sequence[int], required: frozenset[int], size: int
    ) -> list[list[int]]:
        """The full sets of the reference's first best partition.

        Just the one with the required GPUs, if there are any.
        """
        if len(order) > 2 * size:
            for _ in self.prepare(size):
                pass
        request = _Request(order, required, size)
        rest, sets = sum(1 << position for position in order), list[int]()
        while rest.bit_count() >= size:
            chosen = self._next_set(rest, request)
            rest ^= chosen
            if request.required and chosen & request.required:
                return [request.positions(chosen)]
            if chosen.bit_count() == size:
                sets.append(chosen)
        return [request.positions(chosen) for chosen in sets]

    def _next_set(self, rest: int, request: _Request) -> int:
        """The first set of the first best partition, or the one with what is required."""
        if rest.bit_count() == request.size:
            return rest
        if request.required:
            return self._next_while_required(rest, request)
        first = request.first(rest)
        sets = self._starting(rest ^ first, first, rest.bit_count() % request.size, request.size)
        return max(self._best(sets, rest, request.size)[1], key=request.rank)

    def _next_while_required(self, rest: int, request: _Request) -> int:
        size, required, first = request.size, request.required, request.first(rest)
        total, fitting = self._best_fitting(rest, request)
        if len(fitting) == 1:
            return fitting[0]
        if rest.bit_count() <= 2 * size:
            others = {part if part & first else rest ^ part: part for part in fitting}
            return others[max(others, key=request.rank)]
        starting = [part for part in fitting if part & first]
        if not first & required:
            # Most of these are ruled out already because what they leave over is not worth
            # enough even if the required GPUs may be anywhere in it.
            free = rest & ~required & ~first
            sets = self._starting(free, first, rest.bit_count() % size, size)
            within, table = self._within, self._table(size) or self._within
            starting += [part for part in sets if within[part] + table[rest ^ part] >= total]
        for part in sorted(starting, key=request.rank, reverse=True):
            if part & required:
                return part
            if self._within[part] + self._best_fitting(rest ^ part, request)[0] == total:
                return part
        raise AssertionError("a best partition has a first set")

    def _starting(self, free: int, first: int, remainder: int, size: int) -> list[int]:
        """The full and the padded sets that begin with a GPU."""
        sets = self._choose(free, size - 1, first)
        return sets + self._choose(free, remainder - 1, first) if remainder else sets

    def _best_fitting(self, rest: int, request: _Request) -> tuple[int, list[int]]:
        """The best score with all that is required in one set, and the sets that lead to it."""
        required = request.required
        count = request.size - required.bit_count()
        return self._best(self._choose(rest ^ required, count, required), rest, request.size)

    def _best(self, sets: list[int], rest: int, size: int) -> tuple[int, list[int]]:
        """The best score with one of some sets, and the sets that lead to it."""
        self.work += len(sets)
        within, table = self._within, self._table(size) or self._within
        totals = [within[part] + table[rest ^ part] for part in sets]
        best = max(totals, default=-1)
        return best, [part for part, total in zip(sets, totals, strict=True) if total == best]

    def _table(self, size: int) -> list[int] | None:
        """The best score of a partition of each set of GPUs, if that is known already."""
        return self._within if 2 * size >= self._count else self._tables.get(size)

    def _choose(self, subset: int, size: int, always: int = 0) -> list[int]:
        """All subsets of a size, each with some GPUs added."""
        low, high = self._by_size(subset & _LOW), self._by_size(subset & ~_LOW)
        # The low half varies fastest, which keeps look-ups close together in memory.
        return [
            first | second
            for in_high in range(max(0, size - len(low) + 1), min(size, len(high) - 1) + 1)
            for first in [part | always for part in high[in_high]]
            for second in low[size - in_high]
        ]


def _by_size(subset: int) -> list[list[int]]:
    """The subsets of a set by their size."""
    parts, part = [list[int]() for _ in range(subset.bit_count() + 1)], subset
    while True:
        parts[part.bit_count()].append(part)
        if not part:
            return parts
        part = (part - 1) & subset


def _fill(within: list[int], count: int, size: int) -> Generator[None, None, list[int]]:
    """Makes the table of the best partitions of all sets, with pauses.

    Left out is what no search looks up: all GPUs, and a set that still has the remainder of an
    uneven division although no full set can have been taken from it.
    """
    width = min(1 << count, _LOW + 1)
    scores = [within[start : start + width] for start in range(0, 1 << count, width)]
    table = [list(row) for row in scores]
    in_low = [_by_size(subset) for subset in range(width)]
    for high, row in enumerate(table):
        # A choice in the high half brings the row of its scores and the row of what it leaves.
        # Where a full set is taken it may as well be the one with the highest of all GPUs.
        top = 1 << high.bit_length() >> 1
        ways = [[(scores[h], table[high ^ h]) for h in part] for part in _by_size(high)]
        ways_with_top = [
            [(scores[h | top], table[high ^ top ^ h]) for h in part]
            for part in _by_size(high ^ top)
        ]
        for low, parts in enumerate(in_low):
            if not low % _PAUSE:
                yield
            members = len(ways) + len(parts) - 2
            remainder = members % size
            if members <= size or members == count or (remainder and members > count - size):
                continue
            # Every partition has a remainder, if any has, so that one may be taken first.
            choices, take = (ways, remainder or size)
            if high and not remainder:
                choices, take = ways_with_top, size - 1
            row[low] = max(
                [
                    score[part] + rest[low ^ part]
                    for in_high in range(max(0, take - len(parts) + 1), min(take + 1, len(choices)))
                    for score, rest in choices[in_high]
                    for part in parts[take - in_high]
                ]
            )
    return [entry for row in table for entry in row]
