"""From what the plugin serves to what is reported of its GPUs' health. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_device_plugin.hardware.model import Gpu
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.observation import Observation, ObservedResource
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.reports.model import GpuHealth, NodeHealth, Share, Watching
from gpu_device_plugin.resources.model import Device
from gpu_device_plugin.status.collect import meaning_of

_WATCHING: Mapping[WatchState, Watching] = {
    WatchState.WATCHING: Watching.ON,
    WatchState.STARTING: Watching.STARTING,
    WatchState.OFF: Watching.OFF,
    WatchState.SILENT: Watching.OFF,
}
"""In any other state a failure would not be noticed, though it should be."""


def node_health(seen: Observation) -> NodeHealth:
    """How the GPUs of a node are doing."""
    node = seen.node
    if node is None or (node.plan.resources and not seen.resources):
        return NodeHealth()  # not read yet, or just between two configurations
    if node.inventory is None:
        return NodeHealth(is_read=True, driver_problem=node.init_problem)
    devices = _devices_by_gpu(seen.resources)
    return NodeHealth(
        is_read=True,
        offer_problem=seen.offer_problem,
        watching=_WATCHING.get(seen.watch, Watching.BLIND),
        gpus=tuple(_gpu(gpu, devices.get(gpu.uuid, ())) for gpu in node.inventory.gpus),
        unreadable={gone.index: gone.reason for gone in node.inventory.unreadable},
    )


_Found = tuple[str, Device, Ailment | None]
"""A resource's name, a device of it, and what is known against that."""


def _devices_by_gpu(resources: Iterable[ObservedResource]) -> dict[str, list[_Found]]:
    found = dict[str, list[_Found]]()
    for observed in resources:
        for device in observed.resource.devices:
            ailment = observed.ailments.get(device.id)
            found.setdefault(device.gpu_uuid, []).append((observed.resource.name, device, ailment))
    return found


def _gpu(gpu: Gpu, found: Iterable[_Found]) -> GpuHealth:
    found = list(found)
    sizes = dict[str, dict[str, int]]()
    unhealthy = dict[str, set[str]]()
    for resource, device, ailment in found:
        sizes.setdefault(resource, {})[device.id] = device.replicas or 1
        if ailment is not None:
            unhealthy.setdefault(resource, set()).add(device.id)
    return GpuHealth(
        index=gpu.index,
        uuid=gpu.uuid,
        pci_bus_id=gpu.pci_bus_id,
        problem=gpu.lost or _problem([ailment for _, _, ailment in found]),
        shares=tuple(
            Share(resource, devices, frozenset(unhealthy.get(resource, ())))
            for resource, devices in sizes.items()
        ),
    )


def _problem(ailments: list[Ailment | None]) -> str:
    """The firmest of what is known; a device that merely is not watched may be well."""
    firm = [a for a in ailments if a is not None and a.severity is not Severity.PROVISIONAL]
    if not firm:
        return ""
    worst = max(firm, key=_severity)
    meaning = meaning_of(worst.reason)
    part = f", on {len(firm)} of {len(ailments)} devices" if len(firm) < len(ailments) else ""
    return f"{worst.reason}{f' ({meaning})' if meaning else ''}{part}"


def _severity(ailment: Ailment) -> Severity:
    return ailment.severity
