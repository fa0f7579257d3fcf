"""Good partitions of any number of GPUs where the best one would take too long to find.

Fills one set after the other with what is connected best to it, then swaps GPUs between sets as
long as that helps. 64 GPUs take some milliseconds, whatever their connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

_ROUNDS = 6
"""Times that all pairs are tried at most; mostly the second or third brings nothing any more."""


class SwapSearch:
    """Finds well connected sets; near the best, and always the same for the same request."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.work = 0
        """Pairs of GPUs looked at so far."""
        self._rows = rows

    def candidates(
        self, order: Sequence[int], required: frozenset[int], size: int
    ) -> list[list[int]]:
        """The full sets of a good partition; just the one with the required GPUs, if any."""
        sets = self._fill(order, required, size)
        self._swap(sets, order, required)
        if required:
            del sets[1:]
        return [[each for each in order if each in part] for part in sets if len(part) == size]

    def _fill(self, order: Sequence[int], required: frozenset[int], size: int) -> list[set[int]]:
        """Puts the required GPUs into the first set and what fits best to what is there."""
        sets, part = list[set[int]](), set(required)
        free = [position for position in order if position not in required]
        while free:
            pull = {each: sum([self._rows[each][other] for other in part]) for each in free}
            while free and len(part) < size:
                best = max(free, key=pull.__getitem__)
                part.add(best)
                free.remove(best)
                self.work += len(free)
                row = self._rows[best]
                for each in free:
                    pull[each] += row[each]
            sets.append(part)
            part = set()
        return sets or [part]

    def _swap(self, sets: list[set[int]], order: Sequence[int], required: frozenset[int]) -> None:
        rows = self._rows
        home = {each: number for number, part in enumerate(sets) for each in part}
        pulls = {each: [sum([rows[each][o] for o in part]) for part in sets] for each in order}
        movable = [each for each in order if each not in required]
        for _ in range(_ROUNDS):
            improved = False
            for one, other in combinations(movable, 2):
                here, there = home[one], home[other]
                if here == there:
                    continue
                gain = pulls[one][there] - pulls[one][here]
                gain += pulls[other][here] - pulls[other][there] - 2 * rows[one][other]
                if gain > 0:
                    improved = True
                    home[one], home[other] = there, here
                    for each, pull in pulls.items():
                        change = rows[each][other] - rows[each][one]
                        pull[here] += change
                        pull[there] -= change
            self.work += len(movable) * (len(movable) - 1) // 2
            if not improved:
                break
        for part in sets:
            part.clear()
        for each, number in home.items():
            sets[number].add(each)
