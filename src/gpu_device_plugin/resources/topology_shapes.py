"""Trees of GPUs by their shape, and the best partition of each shape.

Where the score of two GPUs depends only on the place where their branches meet, it does not
matter which GPUs there are but only what their tree looks like: on a DGX-2 the 65,536 sets of
GPUs have 231 different shapes. Each is solved once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

Items = Sequence[tuple[int, int]]
"""Choices: the shape that remains, and the highest value of what was taken."""

Outline = tuple[int, int, tuple["Outline", ...]]
"""What two branches must have in common to be alike: score, number of leaves, branches."""

NOTHING, FREE, REQUIRED = 0, 1, 2
"""Shapes of no GPU, of a GPU, and of a GPU that a request insists on."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A set of GPUs: two of them that do not share a smaller branch have this score."""

    score: int
    leaves: tuple[int, ...]
    branches: tuple[Branch, ...] = ()


def as_tree(rows: Sequence[Sequence[int]], members: Sequence[int]) -> Branch | None:
    """Finds the tree that the scores of two or more GPUs form; None if they form none."""
    first = members[0]
    for score in sorted({rows[first][other] for other in members[1:]}):
        groups = _joined(rows, members, score)
        if len(groups) == 1:
            continue
        # No other score can separate the GPUs: this one joins all groups with each other.
        leaves = tuple(group[0] for group in groups if len(group) == 1)
        branches = [as_tree(rows, group) for group in groups if len(group) > 1]
        found = tuple(branch for branch in branches if branch is not None)
        return Branch(score, leaves, found) if len(found) == len(branches) else None
    return None


def _joined(rows: Sequence[Sequence[int]], members: Sequence[int], score: int) -> list[list[int]]:
    """Groups of GPUs between which every score is the given one."""
    groups, unseen = list[list[int]](), list(members)
    while unseen:
        group = [unseen.pop(0)]
        for member in group:
            near = [other for other in unseen if rows[member][other] != score]
            unseen = [other for other in unseen if rows[member][other] == score]
            group += near
        groups.append(group)
    return groups


def outline(branch: Branch) -> Outline:
    """What a branch looks like, whichever GPUs it has."""
    return branch.score, len(branch.leaves), tuple(sorted(map(outline, branch.branches)))


def count_shapes(form: Outline) -> int:
    """How many shapes the sets of GPUs in a branch have at most."""
    shapes = form[1] + 1
    for part, times in Counter(form[2]).items():
        shapes *= comb(count_shapes(part) + times - 1, times)
    return shapes


class Shapes:
    """Shapes of trees by number, and what is known about each."""

    def __init__(self, work: int = 0) -> None:
        self.work = work
        """Pairs of partial choices combined so far."""
        self._size, self._required, self._total = [0, 1, 1], [0, 0, 1], [0, 0, 0]
        self._score = [-1, -1, -1]
        self._parts: list[tuple[int, ...]] = [(), (FREE,), (REQUIRED,)]
        self._numbers = dict[tuple[int, tuple[int, ...]], int]()
        self._runs = dict[tuple[int, int, int], int]()
        self._joins = dict[int, dict[tuple[int, int], int]]()
        self._bare = {REQUIRED: FREE}
        self._takes = dict[tuple[int, int], Items]()
        self._best = dict[tuple[int, int], int | None]()

    def __len__(self) -> int:
        return len(self._parts)

    def join(self, score: int, *shapes: int) -> int:
        """The shape of parts that are connected by a score."""
        parts = list[int]()
        for part in shapes:
            if part:
                parts += self._parts[part] if self._score[part] == score else (part,)
        if len(parts) < 2:
            return parts[0] if parts else NOTHING
        key = score, tuple(sorted(parts))
        if key not in self._numbers:
            self._numbers[key] = len(self._parts)
            self._add(*key)
        return self._numbers[key]

    def _add(self, score: int, parts: tuple[int, ...]) -> None:
        sizes = [self._size[part] for part in parts]
        across = (sum(sizes) ** 2 - sum([size * size for size in sizes])) // 2
        self._score.append(score)
        self._parts.append(parts)
        self._size.append(sum(sizes))
        self._required.append(sum([self._required[part] for part in parts]))
        self._total.append(sum([self._total[part] for part in parts]) + score * across)

    def run(self, score: int, free: int, required: int = 0) -> int:
        """The shape of GPUs that all have the same score with each other."""
        key = score, free, required
        if key not in self._runs:
            self._runs[key] = self.join(score, *(FREE,) * free, *(REQUIRED,) * required)
        return self._runs[key]

    def merge(
        self, score: int, left: Items, right: Items, bonus: int, into: dict[int, int]
    ) -> None:
        """Combines choices in two parts, keeping the most valuable one for each remainder."""
        joins = self._joins.setdefault(score, {})
        self.work += len(left) * len(right)
        for rest_left, value_left in left:
            base = value_left + bonus
            for rest_right, value_right in right:
                key = rest_left, rest_right
                if key in joins:
                    rest = joins[key]
                else:
                    rest = joins[key] = self.join(score, rest_left, rest_right)
                value = base + value_right
                if rest not in into or value > into[rest]:
                    into[rest] = value

    def without_marks(self, shape: int) -> int:
        """The shape with no GPU required."""
        if not self._required[shape]:
            return shape
        bare = self._bare.get(shape, NOTHING)
        if not bare:
            parts = [self.without_marks(part) for part in self._parts[shape]]
            bare = self._bare[shape] = self.join(self._score[shape], *parts)
        return bare

    def takes(self, shape: int, count: int) -> Items:
        """All ways to take some GPUs, the required ones included: remainders and scores."""
        key = shape, count
        if key not in self._takes:
            self._takes[key] = self._find_takes(shape, count)
        return self._takes[key]

    def _find_takes(self, shape: int, count: int) -> Items:
        size, score, parts = self._size[shape], self._score[shape], self._parts[shape]
        if not self._required[shape] <= count <= size:
            return ()
        if count == size:
            return ((NOTHING, self._total[shape]),)
        if count == 0:
            return ((shape, 0),)
        if parts[-1] == FREE:
            return ((self.run(score, size - count), score * comb(count, 2)),)
        head = self.run(score, parts.count(FREE)) or parts[0]
        tail = self.join(score, *parts[max(1, parts.count(FREE)) :])
        found = dict[int, int]()
        for in_head in range(min(count, self._size[head]) + 1):
            bonus = score * in_head * (count - in_head)
            left, right = self.takes(head, in_head), self.takes(tail, count - in_head)
            self.merge(score, left, right, bonus, found)
        return tuple(found.items())

    def best(self, shape: int, size: int) -> int | None:
        """The highest score of a partition into sets of ``size`` and one smaller remainder.

        None if it has required GPUs and they fit into no full set.
        """
        key = shape, size
        if key not in self._best:
            self._best[key] = self._find_best(shape, size)
        return self._best[key]

    def _find_best(self, shape: int, size: int) -> int | None:
        if self._size[shape] <= size:
            fits = not self._required[shape] or self._size[shape] == size
            return self._total[shape] if fits else None
        # Every partition has a remainder, if any has, so it may as well be taken first.
        count = size if self._required[shape] else self._size[shape] % size or size
        found = None
        for rest, score in self.takes(shape, count):
            value = self.best(rest, size)
            if value is not None and (found is None or score + value > found):
                found = score + value
        return found

    def of(self, form: Outline) -> int:
        """The shape of all GPUs of a branch."""
        return self.join(form[0], self.run(form[0], form[1]), *map(self.of, form[2]))
