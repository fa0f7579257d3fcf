"""A place for labels that only notes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Place:
    """An output that notes what it gets, and fails as told."""

    place: str = "a place"
    got: list[dict[str, str]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    async def publish(self, labels: Mapping[str, str]) -> bool:
        if self.failures:
            raise self.failures.pop(0)
        is_new = not self.got or self.got[-1] != labels
        self.got.append(dict(labels))
        return is_new

    async def withdraw(self) -> None:
        self.events.append("withdrawn")

    async def close(self) -> None:
        self.events.append("closed")

    def last(self, key: str) -> str | None:
        return self.got[-1].get(f"nvidia.com/{key}") if self.got else None
