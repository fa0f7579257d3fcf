"""Pauses between attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first` to `most` seconds, each up to a tenth longer or shorter."""

    first: float
    most: float
    attempts: int = 0

    def next(self) -> float:
        """The pause before the next attempt, in seconds."""
        pause = min(self.most, self.first * 2 ** min(self.attempts, 30))
        self.attempts += 1
        # So that the nodes of a fleet do not all come back in the same moment.
        return float(pause * random.uniform(0.9, 1.1))  # noqa: S311 - no secret

    def reset(self) -> None:
        """Begins anew, after a success."""
        self.attempts = 0
