"""The status of a node as seen once by whoever is not part of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpu_device_plugin.status.model import NodeStatus


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment."""

    status: NodeStatus
    notes: tuple[str, ...] = ()
    """What it lacks and why, a sentence each."""


class LookSource(Protocol):
    """Whoever can tell the status of a node."""

    async def look(self) -> Look:
        """The node as it is now.

        Raises:
            UserError: nothing can be told.
        """
        ...

    def close(self) -> None:
        """Ends what was kept between looks."""
        ...
