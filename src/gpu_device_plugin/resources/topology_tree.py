"""Preferred sets of GPUs whose connections form a tree, as those of PCI Express do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from threading import Lock

from gpu_device_plugin.resources.topology_shapes import (
    NOTHING,
    Branch,
    Items,
    Shapes,
    as_tree,
    count_shapes,
    outline,
)

MOST_SHAPES = 1_500
"""With so many shapes the first request for a size takes about 10 ms, later ones a few."""

_KEPT_SHAPES = 10_000
"""Shapes after which all are forgotten: about 8 MiB."""

_NO_GPU: dict[int, Items] = {0: ((NOTHING, 0),)}
"""The choices where there is nothing to choose from."""


@dataclass(slots=True)
class _Rest:
    """GPUs not yet in a set.

    Each is a bit, the first available one the highest: of two sets of one size the greater
    number is the one that the reference meets first. Padding has the lowest bits.
    """

    bits: dict[int, int]
    required: frozenset[int]
    shift: int
    """Bits of a set; what is above them in a choice is its score."""

    def take(self, chosen: int) -> list[int]:
        """Removes a set of GPUs, given by bits."""
        members = [position for position, bit in self.bits.items() if bit & chosen]
        for position in members:
            del self.bits[position]
        return members

    def split(self, positions: Iterable[int]) -> tuple[list[int], list[int]]:
        """The bits of free and of required GPUs among some, the first available first."""
        free, required = list[int](), list[int]()
        for position in positions:
            if bit := self.bits.get(position, 0):
                (required if position in self.required else free).append(bit)
        return sorted(free, reverse=True), required


class TreeSearch:
    """Finds preferred sets on a machine whose scores form a tree."""

    def __init__(self, tree: Branch) -> None:
        self._tree, self._outline = tree, outline(tree)
        self._shapes = Shapes()
        # Preparing may run in a thread of its own.
        self._lock = Lock()

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> TreeSearch | None:
        """The search for a matrix of scores, if they form a tree with not too many shapes."""
        tree = as_tree(rows, range(len(rows))) if len(rows) > 1 else None
        if tree is None or count_shapes(outline(tree)) > MOST_SHAPES:
            return None
        return cls(tree)

    @property
    def work(self) -> int:
        """Pairs of partial choices combined so far."""
        return self._shapes.work

    def is_quick(self, _available: int, _size: int) -> bool:
        """Whether a request is answered within milliseconds: always."""
        return True

    def prepare(self, size: int) -> Iterator[None]:
        """Makes the first request for a size as quick as later ones, with pauses."""
        with self._lock:
            self._shapes.best(self._shapes.of(self._outline), size)
        yield

    def candidates(
        self, order: Sequence[int], required: frozenset[int], size: int
    ) -> list[list[int]]:
        """The full sets of the reference's first best partition.

        Just the one with the required GPUs, if there are any.
        """
        shift = len(order) + -len(order) % size
        bits = {position: 1 << (shift - 1 - place) for place, position in enumerate(order)}
        rest, sets = _Rest(bits, required, shift), list[list[int]]()
        with self._lock:
            if len(self._shapes) > _KEPT_SHAPES:
                self._shapes = Shapes(self._shapes.work)
            while len(rest.bits) > size:
                sets.append(rest.take(self._next_set(rest, size)))
                if required and required.issubset(sets[-1]):
                    return sets[-1:]
        sets.append(list(rest.bits))
        return sets[-1:] if required else [part for part in sets if len(part) == size]

    def _next_set(self, rest: _Rest, size: int) -> int:
        """The set that comes first in the first of the best partitions."""
        shapes, shift = self._shapes, rest.shift
        full, counts = {size: 0}, {size: 0}
        if remainder := len(rest.bits) % size:
            counts[remainder] = (1 << (size - remainder)) - 1
        best = 0
        for left, code in self._choices(rest, full if rest.required else counts, marked=True):
            value = shapes.best(left, size)
            if value is not None:
                best = max(best, code + (value << shift))
        total, first = best >> shift, best & ((1 << shift) - 1)
        if not rest.required:
            return first
        # The first set need not be the one with the required GPUs. Most of the others are
        # ruled out already because what they leave over is not worth enough without marks.
        others = list[tuple[int, int, int]]()
        for left, code in self._choices(rest, counts, marked=False):
            chosen, needed = code & ((1 << shift) - 1), total - (code >> shift)
            bound = shapes.best(shapes.without_marks(left), size)
            if chosen > first and bound is not None and bound >= needed:
                others.append((chosen, needed, left))
        for chosen, needed, left in sorted(others, reverse=True):
            if shapes.best(left, size) == needed:
                return chosen
        return first

    def _choices(
        self, rest: _Rest, counts: Mapping[int, int], *, marked: bool
    ) -> Iterator[tuple[int, int]]:
        """Sets of some sizes: what they leave over, with score and bits of the best such set.

        Args:
            rest: the GPUs to choose from.
            counts: the sizes, and the padding that sets of this size get.
            marked: whether sets have all required GPUs, or none of them.
        """
        found = self._within(self._tree, rest, counts, max(counts), marked=marked)
        for count, items in found.items():
            for left, code in items:
                yield left, code + counts[count]

    def _within(
        self, branch: Branch, rest: _Rest, counts: Iterable[int], most: int, *, marked: bool
    ) -> dict[int, Items]:
        """Choices in a branch, by the number of GPUs taken."""
        parts = [self._among_leaves(branch, rest, most, marked=marked)] if branch.leaves else []
        parts += [
            self._within(part, rest, range(most + 1), most, marked=marked)
            for part in branch.branches
        ]
        filled = [part for part in parts if part != _NO_GPU] or [_NO_GPU]
        found = filled[0]
        for part in filled[1:]:
            sums = counts if part is filled[-1] else range(most + 1)
            found = self._merged(branch.score, found, part, sums, rest.shift)
        return {count: found[count] for count in counts if count in found}

    def _merged(
        self,
        score: int,
        left: Mapping[int, Items],
        right: Mapping[int, Items],
        counts: Iterable[int],
        shift: int,
    ) -> dict[int, Items]:
        merged = dict[int, Items]()
        for count in counts:
            found = dict[int, int]()
            for in_left, items in left.items():
                in_right = count - in_left
                if in_right in right:
                    bonus = score * in_left * in_right << shift
                    self._shapes.merge(score, items, right[in_right], bonus, found)
            if found:
                merged[count] = tuple(found.items())
        return merged

    def _among_leaves(
        self, branch: Branch, rest: _Rest, most: int, *, marked: bool
    ) -> dict[int, Items]:
        """Choices among GPUs that are all alike: the first ones are the ones to take."""
        free, required = rest.split(branch.leaves)
        score, taken = branch.score, 0
        count, code = (len(required), sum(required)) if marked else (0, 0)
        found = dict[int, Items]()
        while count <= most and taken <= len(free):
            left = self._shapes.run(score, len(free) - taken, 0 if marked else len(required))
            found[count] = ((left, code + (score * comb(count, 2) << rest.shift)),)
            if taken < len(free):
                code += free[taken]
            taken, count = taken + 1, count + 1
        return found
