"""``gpu-node devices``: a line for each device that the node offers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from gpu_device_plugin.console.screen import Colours, Screen
from gpu_device_plugin.console.table import Cell, Column, Row, table_lines
from gpu_device_plugin.status.collect import count_held
from gpu_device_plugin.status.model import FormerHolding, Holder, NodeStatus
from gpu_device_plugin.status.words import (
    Health,
    Offered,
    cause,
    device_names,
    holder_list,
    is_named,
    memory,
    offered_devices,
)

SCHEMA = "gpu-node/devices/v1"
FORMER = "not offered"
"""Stands where health would, for what a container still holds."""

COLUMNS = (
    Column("RESOURCE", narrowest=14, by_middle=True),
    Column("INDEX"),
    Column("HEALTH"),
    Column("CAUSE", narrowest=16, last_resort=1, is_wanted=True),
    Column("USED", right=True),
    Column("HELD BY", narrowest=16, is_wanted=True),
    Column("NAME", narrowest=12, last_resort=4),
    Column("MEMORY", right=True, last_resort=3),
    Column("NUMA", right=True, last_resort=5),
    Column("ID", narrowest=13, last_resort=2, by_middle=True),
)


def devices_lines(
    status: NodeStatus, screen: Screen, resource: str = "", namespace: str = ""
) -> Iterator[str]:
    """The devices as a table; nothing if there are none.

    Args:
        status: of the node.
        screen: where the text goes.
        resource: only devices of this resource.
        namespace: only devices that pods of this namespace hold.
    """
    names = device_names(status.hardware)
    sizes = _sizes(status)
    rows = [
        _row(each, names, sizes, told=status.pods.asked, colours=screen.colours)
        for each in offered_devices(status, resource)
        if is_held_from(each.device.holders, namespace)
    ]
    rows += [
        _former_row(each, names, screen.colours) for each in former_of(status, resource, namespace)
    ]
    if rows:
        yield from table_lines(COLUMNS, rows, screen.columns, screen.colours)


def is_held_from(holders: Iterable[Holder], namespace: str) -> bool:
    """Whether a pod of a namespace is among the holders; an empty namespace means every device."""
    return not namespace or any(holder.namespace == namespace for holder in holders)


def former_of(status: NodeStatus, resource: str, namespace: str) -> Iterator[FormerHolding]:
    """What is held and not offered any more."""
    for each in status.pods.former:
        if is_named(each.resource, resource) and is_held_from([each.holder], namespace):
            yield each


def _row(
    offered: Offered, names: dict[str, str], sizes: dict[str, int], *, told: bool, colours: Colours
) -> Row:
    device = offered.device
    return (
        offered.resource.name,
        device.index,
        health_cell(offered.health, colours),
        Cell(cause(device.illness), colours.red),
        _used(offered) if told and offered.resource.in_use is not None else "?",
        holder_list(device.holders),
        names.get(device.id, ""),
        memory(sizes.get(device.id, 0)),
        "" if device.numa_node is None else str(device.numa_node),
        device.id,
    )


def _former_row(former: FormerHolding, names: dict[str, str], colours: Colours) -> Row:
    return (
        former.resource,
        former.index,
        Cell(FORMER, colours.yellow),
        "",
        "",
        holder_list([former.holder]),
        names.get(former.device, ""),
        "",
        "",
        former.device,
    )


def health_cell(health: Health, colours: Colours) -> Cell:
    """Health in the colour that it has everywhere."""
    colour = {Health.UNHEALTHY: colours.red, Health.HEALTHY: colours.green}.get(health)
    return Cell(health.upper() if health is Health.UNHEALTHY else health, colour or colours.yellow)


def _used(offered: Offered) -> str:
    return f"{count_held(offered.device)}/{offered.device.replicas or 1}"


def _sizes(status: NodeStatus) -> dict[str, int]:
    """Bytes of memory by UUID."""
    sizes = dict[str, int]()
    for gpu in () if status.hardware is None else status.hardware.gpus:
        sizes[gpu.uuid] = gpu.memory_bytes
        sizes.update({mig.uuid: mig.memory_bytes for mig in gpu.mig_devices})
    return sizes


def devices_data(status: NodeStatus, resource: str = "", namespace: str = "") -> dict[str, Any]:
    """The devices as mappings, lists and scalars (``docs/commands.md``)."""
    names, sizes = device_names(status.hardware), _sizes(status)
    return {
        "schema": SCHEMA,
        "node": status.node,
        "time": status.time,
        "kubelet": kubelet_data(status),
        "devices": [
            {
                "resource": each.resource.name,
                "sharing": each.resource.sharing,
                "health": str(each.health),
                "name": names.get(each.device.id, ""),
                "memory_bytes": sizes.get(each.device.id, 0),
                "used": count_held(each.device),
                **asdict(each.device),
            }
            for each in offered_devices(status, resource)
            if is_held_from(each.device.holders, namespace)
        ],
        "former": [asdict(each) for each in former_of(status, resource, namespace)],
    }


def kubelet_data(status: NodeStatus) -> dict[str, Any]:
    """Whether the kubelet tells who holds what."""
    pods = status.pods
    return {"asked": pods.asked, "problem": pods.problem, "time": pods.time}
