"""``gpu-node pods``: what each container holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpu_device_plugin.console.screen import Colours, Screen
from gpu_device_plugin.console.table import Cell, Column, Row, table_lines
from gpu_device_plugin.status.collect import is_offered
from gpu_device_plugin.status.model import Holder, NodeStatus
from gpu_device_plugin.status.show_devices import FORMER, former_of, health_cell, kubelet_data
from gpu_device_plugin.status.words import Offered, cause, number_ranges, offered_devices

SCHEMA = "gpu-node/pods/v1"

COLUMNS = (
    Column("NAMESPACE", narrowest=9, by_middle=True),
    Column("POD", narrowest=16, by_middle=True, is_wanted=True),
    Column("CONTAINER", narrowest=9, last_resort=3, by_middle=True),
    Column("GPU"),
    Column("REPLICAS"),
    Column("HEALTH"),
    Column("CAUSE", narrowest=16, last_resort=1, is_wanted=True),
    Column("PROFILE", last_resort=4),
    Column("RESOURCE", narrowest=14, last_resort=5, by_middle=True),
    Column("ID", narrowest=13, last_resort=2, by_middle=True),
)


@dataclass(frozen=True, slots=True)
class Held:
    """A device, or some of its replicas, in the hands of a container."""

    holder: Holder
    resource: str
    device: str
    """Its id, without replica number."""
    index: str
    """``3`` or ``3:1``; empty if the node has no such device."""
    offered: Offered | None
    """None if it is not offered as the container holds it (any more)."""

    @property
    def sort_key(self) -> tuple[str, str, str, str, tuple[int, ...], str]:
        """By pod, then by resource and index."""
        numbers = tuple(int(part) for part in self.index.split(":") if part.isdecimal())
        h = self.holder
        return h.namespace, h.pod, h.container, self.resource, numbers, self.device


def held_devices(status: NodeStatus, resource: str = "", namespace: str = "") -> list[Held]:
    """What containers hold, in the order of their names.

    Args:
        status: of the node.
        resource: only devices of this resource.
        namespace: only pods of this namespace.
    """
    held = [
        Held(holder, each.resource.name, each.device.id, each.device.index, each)
        for each in offered_devices(status, resource)
        for holder in each.device.holders
        if namespace in {"", holder.namespace} and is_offered(each.device.replicas, holder)
    ]
    held += [
        Held(former.holder, former.resource, former.device, former.index, None)
        for former in former_of(status, resource, namespace)
    ]
    return sorted(held, key=lambda each: each.sort_key)


def pods_lines(
    status: NodeStatus, screen: Screen, resource: str = "", namespace: str = ""
) -> Iterator[str]:
    """A line for each device that a container holds; nothing if there is none."""
    profiles = _profiles(status)
    rows = [
        _row(held, profiles.get(held.device, ""), screen.colours)
        for held in held_devices(status, resource, namespace)
    ]
    if rows:
        yield from table_lines(COLUMNS, rows, screen.columns, screen.colours)


def _row(held: Held, profile: str, colours: Colours) -> Row:
    holder, offered = held.holder, held.offered
    health = Cell(FORMER, colours.yellow)
    reason = ""
    if offered is not None:
        health = health_cell(offered.health, colours)
        reason = cause(offered.device.illness)
    return (
        holder.namespace,
        holder.pod,
        holder.container,
        held.index or "?",
        number_ranges(holder.replicas),
        health,
        Cell(reason, colours.red),
        profile,
        held.resource,
        held.device,
    )


def _profiles(status: NodeStatus) -> dict[str, str]:
    gpus = () if status.hardware is None else status.hardware.gpus
    return {mig.uuid: mig.profile for gpu in gpus for mig in gpu.mig_devices}


def pods_data(status: NodeStatus, resource: str = "", namespace: str = "") -> dict[str, Any]:
    """The containers as mappings, lists and scalars (``docs/commands.md``)."""
    profiles = _profiles(status)
    containers: dict[Holder, list[dict[str, Any]]] = {}
    for held in held_devices(status, resource, namespace):
        devices = containers.setdefault(replace(held.holder, replicas=()), [])
        devices.append(_device_data(held, profiles.get(held.device, "")))
    return {
        "schema": SCHEMA,
        "node": status.node,
        "time": status.time,
        "kubelet": kubelet_data(status),
        "containers": [
            {
                "namespace": holder.namespace,
                "pod": holder.pod,
                "container": holder.container,
                "devices": devices,
            }
            for holder, devices in containers.items()
        ],
    }


def _device_data(held: Held, profile: str) -> dict[str, Any]:
    offered = held.offered
    return {
        "resource": held.resource,
        "id": held.device,
        "index": held.index,
        "mig_profile": profile,
        "replicas": list(held.holder.replicas),
        "offered": offered is not None,
        "health": "unknown" if offered is None else str(offered.health),
        "cause": "" if offered is None else cause(offered.device.illness),
    }
