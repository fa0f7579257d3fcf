"""What a kubelet knows at one moment, as immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_device_plugin.simulation.pods import Pod


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device of a resource."""

    id: str
    is_healthy: bool
    numa_nodes: tuple[int, ...] = ()
    pod: str = ""
    """Who has it; empty if it is free."""


@dataclass(frozen=True, slots=True)
class ResourceView:
    """One extended resource of the node."""

    name: str
    devices: tuple[DeviceView, ...] = ()
    """In the order of the plugin's list."""
    is_connected: bool = False
    """Whether there is a plugin behind it."""
    lists: int = 0
    """Device lists that were received since the kubelet started."""

    @property
    def capacity(self) -> int:
        """How many devices there are."""
        return len(self.devices)

    @property
    def allocatable(self) -> int:
        """How many of them are healthy."""
        return sum(device.is_healthy for device in self.devices)

    @property
    def free(self) -> int:
        """How many are healthy and nobody has them."""
        return sum(device.is_healthy and not device.pod for device in self.devices)

    @property
    def in_use(self) -> int:
        """How many somebody has."""
        return sum(bool(device.pod) for device in self.devices)


@dataclass(frozen=True, slots=True)
class NodeView:
    """The node as its kubelet sees it."""

    resources: Mapping[str, ResourceView] = field(default_factory=dict)
    pods: Mapping[str, Pod] = field(default_factory=dict)
    registrations: int = 0
    """Registrations since the kubelet was made, the refused ones included."""
    is_running: bool = False

    def resource(self, name: str) -> ResourceView:
        """A resource, also one that nobody has registered."""
        return self.resources.get(name, ResourceView(name))


class EventKind(StrEnum):
    """What a kubelet tells about."""

    STARTED = "started"
    STOPPED = "stopped"
    REGISTERED = "registered"
    REFUSED = "refused"
    LIST = "list"
    DISCONNECTED = "disconnected"
    ADMITTED = "admitted"
    REJECTED = "rejected"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class KubeletEvent:
    """One thing that a kubelet has seen or done."""

    kind: EventKind
    message: str
    resource: str = ""
    pod: str = ""
