"""Pauses between attempts at something that other nodes of the fleet attempt as well."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first` to `most` seconds, each up to a quarter longer by chance.

    With the defaults they are those of client-go's reflectors, 0.8 s to 30 s.
    """

    first: float = 0.8
    most: float = 30.0
    chance: Callable[[], float] = field(default=random.random, repr=False)
    attempts: int = 0

    def next(self, at_least: float = 0.0) -> float:
        """Seconds until the next attempt, and no fewer than somebody asked for."""
        pause = max(at_least, min(self.most, self.first * 2.0 ** min(self.attempts, 30)))
        self.attempts += 1
        return pause * (1.0 + 0.25 * self.chance())

    def reset(self) -> None:
        """Begins anew, after a success."""
        self.attempts = 0
