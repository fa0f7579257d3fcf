"""Devices as the kubelet counts them, and the resources that they make up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpu_device_plugin.config.model import SharingStrategy

REPLICA_MARK = "::"
"""Stands between a device id and a replica number (k8s-device-plugin's annotated ids)."""
REPLICA_DIGITS = 9
"""No device has more replicas than a number of so many digits."""


def split_id(device_id: str) -> tuple[str, int | None]:
    """The id without its replica number, and that number; what is no number is part of the id."""
    base, _, number = device_id.partition(REPLICA_MARK)
    if number.isascii() and number.isdecimal() and len(number) <= REPLICA_DIGITS:
        return base, int(number)
    return device_id, None


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG device as it is offered: itself, or as a number of replicas."""

    id: str
    """UUID, or ``tegra`` or ``all``; without replica number."""
    index: str
    """``3`` for a GPU, ``3:1`` for a MIG device, ``all`` on WSL."""
    paths: tuple[str, ...] = ()
    """Device nodes that a container needs to use it."""
    numa_node: int | None = None
    gpu_uuid: str = ""
    """The physical GPU that it is, or is on; empty where there is none to watch."""
    gpu_index: int = 0
    mig_instances: tuple[int, int] | None = None
    """GPU instance and compute instance of a MIG device."""
    memory_bytes: int = 0
    compute_capability: tuple[int, int] | None = None
    replicas: int = 0
    """How many replicas are offered in its place; 0 if it is offered itself."""

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device."""
        return self.mig_instances is not None

    @property
    def is_replicated(self) -> bool:
        """Whether replicas are offered in its place."""
        return self.replicas > 0

    def name(self, *, by_index: bool) -> str:
        """What containers are told of it, and what CDI calls it."""
        return self.index if by_index else self.id

    def ids(self) -> tuple[str, ...]:
        """All ids under which it can be asked for, in the order of their numbers."""
        if not self.is_replicated:
            return (self.id,)
        return tuple([f"{self.id}{REPLICA_MARK}{n}" for n in range(self.replicas)])

    @property
    def sort_key(self) -> tuple[int, int, str]:
        """By GPU, then MIG slot, so that every list comes in one order."""
        slot = self.index.partition(":")[2]
        return self.gpu_index, int(slot) if slot.isdigit() else -1, self.id


@dataclass(frozen=True)
class Resource:
    """An extended resource of the node and the devices that it consists of."""

    name: str
    """Full name, e.g. ``nvidia.com/gpu``."""
    devices: tuple[Device, ...]
    is_discrete: bool = True
    """Whether its GPUs are discrete ones with the driver's control nodes and with links between
    them, unlike those of WSL and Tegra."""
    requires_single: bool = field(default=False)
    """Whether a container may have one replica only (failRequestsGreaterThanOne)."""
    sharing: SharingStrategy = SharingStrategy.NONE
    """How replicas share a device; none if the devices are offered themselves."""

    @property
    def short_name(self) -> str:
        """The name behind the vendor's prefix."""
        return self.name.partition("/")[2]

    @property
    def socket_name(self) -> str:
        """Base name of the socket under which it is served."""
        return f"nvidia-{self.short_name}.sock"

    @cached_property
    def by_id(self) -> Mapping[str, Device]:
        """Devices by every id under which they can be asked for."""
        return {device_id: device for device, ids in self.ids_by_device for device_id in ids}

    def find(self, device_id: str) -> Device | None:
        """The device with that id, replica number and all; None if there is none."""
        return self.by_id.get(device_id)

    def ids(self) -> Iterator[str]:
        """The ids of all devices, in order."""
        for device in self.devices:
            yield from device.ids()

    @cached_property
    def ids_by_device(self) -> tuple[tuple[Device, tuple[str, ...]], ...]:
        """Each device with its ids; kept, since most requests look at them."""
        return tuple((device, device.ids()) for device in self.devices)

    @cached_property
    def size(self) -> int:
        """How many devices the kubelet counts."""
        return sum(device.replicas or 1 for device in self.devices)

    @cached_property
    def is_plain_gpus(self) -> bool:
        """Whether it consists of whole GPUs, for which links between them matter."""
        return self.is_discrete and not any(device.is_mig for device in self.devices)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a node offers: the outcome of configuration and inventory."""

    resources: tuple[Resource, ...] = ()
    warnings: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """The names of the resources."""
        return tuple(resource.name for resource in self.resources)
