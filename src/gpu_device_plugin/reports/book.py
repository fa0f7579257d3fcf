"""Which notices are told, and how often: what happens again joins what has been told already.

Pure: time is an argument (seconds of a clock that never goes back). However much happens, the
book stays small: a notice that comes again only counts, and what finds no place is counted, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpu_device_plugin.reports.notices import Notice

MOST_NOTICES = 64
"""Different notices that are remembered."""
TOO_OLD_SECONDS = 3600.0
"""After which a notice that could not be told is given up; API servers keep events for an hour."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at once, and one every `seconds` in the long run."""

    burst: int
    seconds: float


PER_NODE = Rate(burst=20, seconds=5)
PER_NOTICE = Rate(burst=3, seconds=60)


@dataclass(slots=True)
class Allowance:
    """A token bucket."""

    rate: Rate
    tokens: float = field(init=False)
    at: float = 0.0

    def __post_init__(self) -> None:
        """It is full at first."""
        self.tokens = float(self.rate.burst)

    def wait(self, now: float) -> float:
        """Seconds until there is a token."""
        passed = max(0.0, now - self.at)
        self.tokens = min(self.rate.burst, self.tokens + passed / self.rate.seconds)
        self.at = now
        # A wait that is rounded down must not end a moment too early.
        return 0.0 if self.tokens >= 1 - 1e-9 else (1 - self.tokens) * self.rate.seconds

    def take(self, now: float) -> None:
        """Takes a token."""
        self.wait(now)
        self.tokens -= 1


@dataclass(slots=True)
class Entry:
    """A notice and how often it was made."""

    notice: Notice
    """The newest one of its kind."""
    first: float
    """Seconds since 1970 when it was first made."""
    last: float
    count: int = 1
    told: int = 0
    """The count that Kubernetes knows."""
    since: float = 0.0
    """When the oldest untold one was made, by the clock that never goes back."""
    name: str = ""
    """Of the object that tells it, or is to; empty if that has not been tried yet."""
    allowance: Allowance = field(default_factory=lambda: Allowance(PER_NOTICE))

    @property
    def is_told(self) -> bool:
        """Whether Kubernetes knows all of it."""
        return self.told >= self.count


class EventBook:
    """All notices that are told or to be told.

    Args:
        per_node: how often anything is told.
        size: how many different notices are remembered.
    """

    def __init__(self, per_node: Rate = PER_NODE, size: int = MOST_NOTICES) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        self._allowance = Allowance(per_node)
        self._size = size
        self.left_out = 0
        """Notices that found no place and that nobody has been told of."""

    def __len__(self) -> int:
        """How many different notices are remembered."""
        return len(self._entries)

    def note(self, notice: Notice, wall: float, now: float) -> None:
        """Takes a notice.

        Args:
            notice: what has happened.
            wall: seconds since 1970.
            now: seconds of the clock that never goes back.
        """
        entry = self._entries.pop(notice.key, None)
        if entry is None:
            if not self._has_place():
                self.left_out += 1
                return
            entry = Entry(notice, first=wall, last=wall, since=now)
        else:
            if entry.is_told:
                entry.since = now
            entry.notice, entry.last, entry.count = notice, wall, entry.count + 1
            # The clock may have been set back meanwhile.
            entry.first = min(entry.first, wall)
        self._entries[notice.key] = entry

    def _has_place(self) -> bool:
        """Makes place by forgetting what was told longest ago, if need be."""
        if len(self._entries) < self._size:
            return True
        oldest = next((key for key, entry in self._entries.items() if entry.is_told), None)
        if oldest is None:
            return False
        del self._entries[oldest]
        return True

    def untold(self) -> Iterator[Entry]:
        """What Kubernetes does not know yet, what has waited longest first."""
        return iter(sorted((e for e in self._entries.values() if not e.is_told), key=_since))

    def due(self, now: float) -> Entry | None:
        """What may be told now; None if there is nothing."""
        if self._allowance.wait(now) > 0:
            return None
        return next((e for e in self.untold() if e.allowance.wait(now) <= 0), None)

    def wait(self, now: float) -> float | None:
        """Seconds until something may be told; None if there is nothing to tell."""
        pauses = [entry.allowance.wait(now) for entry in self.untold()]
        return max(min(pauses), self._allowance.wait(now)) if pauses else None

    def told(self, shown: Entry, now: float, left_out: int = 0) -> None:
        """Kubernetes knows of an entry.

        Args:
            shown: a copy of the entry as it was when it was told; it may have gone on meanwhile.
            now: seconds of the clock that never goes back.
            left_out: so many that found no place were told of with it.
        """
        self.left_out -= left_out
        self._allowance.take(now)
        kept = self._entries.get(shown.notice.key)
        if kept is not None:
            kept.told, kept.name = shown.count, shown.name
            kept.since = now
            kept.allowance.take(now)

    def drop(self, entry: Entry) -> None:
        """Gives an entry up."""
        self._entries.pop(entry.notice.key, None)

    def drop_old(self, now: float) -> int:
        """Gives up what has waited for too long; returns how many notices that were."""
        old = [e for e in self.untold() if now - e.since > TOO_OLD_SECONDS]
        for entry in old:
            self.drop(entry)
        return sum(entry.count - entry.told for entry in old)


def _since(entry: Entry) -> float:
    return entry.since
