"""What is known against a device, for the kubelet, the log and for whoever asks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from enum import IntEnum


class Severity(IntEnum):
    """How firm a mark is; a firmer one replaces a weaker one, never the other way round."""

    PROVISIONAL = 0
    """Nothing is known but that the device is not watched; over once it is."""
    RECOVERABLE = 1
    """Over after a quiet period, where recovery is switched on."""
    UNWATCHABLE = 2
    """Over when the monitor takes the GPU, which it tries again and again."""
    UNTIL_RESET = 3
    """Over when the GPU has been reset, which is seen when it disappears and comes back, or when
    the process starts anew. Stays over reloads."""
    LOST = 4
    """Over when the GPU can be read again, which takes a reset at least."""


@dataclass(frozen=True, slots=True)
class Ailment:
    """Why a device is unhealthy."""

    reason: str
    severity: Severity
    first: float
    """Seconds since 1970 of the first event."""
    last: float
    """Seconds since 1970 of the newest event."""
    count: int = 1
    heard: float = field(default_factory=time.monotonic, compare=False)
    """When the newest event was heard of, by the clock that nobody sets: what waits counts by it."""

    def joined_by(self, other: Ailment) -> Ailment:
        """This ailment after one more event; the reason is that of the firmest one."""
        firmer = other if other.severity > self.severity else self
        return replace(
            firmer,
            first=self.first,
            last=other.last,
            count=self.count + other.count,
            heard=other.heard,
        )
