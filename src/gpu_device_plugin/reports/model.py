"""How the GPUs of a node are doing, as far as Kubernetes is told of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Report(StrEnum):
    """A way to report, as ``--report-health`` names it."""

    EVENTS = "events"
    CONDITION = "node-condition"


class Watching(StrEnum):
    """Whether anybody would notice a GPU that breaks."""

    ON = "on"
    STARTING = "starting"
    """Not yet; it will be known soon."""
    OFF = "off"
    """Nobody, by a setting or on this platform."""
    BLIND = "blind"
    """Nobody, though somebody should."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one GPU contributes to a resource; replicas count one by one, as for the kubelet."""

    resource: str
    devices: Mapping[str, int]
    """How many the kubelet counts for each device, by id without replica number."""
    unhealthy: frozenset[str] = frozenset()
    """The ids of devices that are taken away at the moment."""

    def count(self, ids: Collection[str] | None = None) -> int:
        """How many the kubelet counts for these devices, or for all."""
        return sum(n for i, n in self.devices.items() if ids is None or i in ids)


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """One GPU."""

    index: int
    uuid: str
    pci_bus_id: str = ""
    problem: str = ""
    """What is known against it or a part of it; empty if nothing is."""
    shares: tuple[Share, ...] = ()
    """What it contributes to resources; none if it is not offered."""


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """All GPUs of a node at one moment."""

    is_read: bool = False
    """Whether the node has been read at all."""
    driver_problem: str = ""
    """Why the driver cannot be used; empty if it can."""
    offer_problem: str = ""
    """Why nothing is offered though there are GPUs; empty if that is not so."""
    watching: Watching = Watching.STARTING
    gpus: tuple[GpuHealth, ...] = ()
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """GPUs that the driver counts and that never could be read: index and reason."""
