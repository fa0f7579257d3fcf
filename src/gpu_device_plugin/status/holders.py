"""From what the kubelet tells of containers to who holds which device. Everything here is pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gpu_device_plugin.config.names import PREFIX
from gpu_device_plugin.resources.model import split_id
from gpu_device_plugin.status.collect import Holders, is_offered
from gpu_device_plugin.status.model import FormerHolding, Hardware, Holder, ResourceStatus

if TYPE_CHECKING:  # the gRPC library is for those who ask
    from gpu_device_plugin.kubelet.podresources import ContainerDevices

OUR_PREFIXES = ("GPU-", "MIG-")
OUR_NAMES = frozenset({"tegra", "all"})
"""Ids of devices without a UUID: the integrated GPU of a Tegra, and what WSL has."""


def is_ours(resource: str, device_id: str) -> bool:
    """Whether this plugin offers such devices, now or by another configuration.

    Other plugins of the vendor offer ``nvidia.com/...`` too: GPUs for virtual machines by the
    number of their IOMMU group, network devices by their PCI address.
    """
    if not resource.startswith(PREFIX):
        return False
    return device_id.startswith(OUR_PREFIXES) or split_id(device_id)[0] in OUR_NAMES


def make_holders(containers: Iterable[ContainerDevices]) -> Holders:
    """Who holds each device of ours, in the order of namespace, pod and container.

    Args:
        containers: as the kubelet tells of them; devices of others are left out.
    """
    holders: dict[tuple[str, str], list[Holder]] = {}
    for held in sorted(containers, key=lambda c: (c.namespace, c.pod, c.container)):
        for resource, device_ids in held.devices.items():
            for device, replicas in _by_device(resource, device_ids).items():
                holders.setdefault((resource, device), []).append(
                    Holder(held.namespace, held.pod, held.container, tuple(sorted(replicas)))
                )
    return holders


def _by_device(resource: str, device_ids: Iterable[str]) -> Mapping[str, list[int]]:
    """The numbers of replicas by the id of their device; none for a device that is held itself."""
    found: dict[str, list[int]] = {}
    if not resource.startswith(PREFIX):
        return found
    for device_id in device_ids:
        device, number = split_id(device_id)
        if device in found or is_ours(resource, device_id):
            numbers = found.setdefault(device, [])
            if number is not None:
                numbers.append(number)
    return found


def former_holdings(
    holders: Holders, resources: Iterable[ResourceStatus], hardware: Hardware | None
) -> tuple[FormerHolding, ...]:
    """What containers hold and is not offered (any more), such as under a former configuration.

    Args:
        holders: who holds what.
        resources: that are offered.
        hardware: the GPUs of the node, by which devices are named.
    """
    offered = {(r.name, device.id): device for r in resources for device in r.devices}
    indices = dict(_indices(hardware))
    return tuple(
        FormerHolding(resource, device_id, indices.get(device_id, ""), holder)
        for (resource, device_id), those in sorted(holders.items())
        for holder in those
        for device in [offered.get((resource, device_id))]
        if device is None or not is_offered(device.replicas, holder)
    )


def _indices(hardware: Hardware | None) -> Iterator[tuple[str, str]]:
    """Id and index of each GPU and MIG device."""
    for gpu in () if hardware is None else hardware.gpus:
        yield gpu.uuid, str(gpu.index)
        for mig in gpu.mig_devices:
            yield mig.uuid, f"{gpu.index}:{mig.slot}"
