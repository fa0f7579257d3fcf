"""``gpu-node status``: how the node is doing, the worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from gpu_device_plugin.config.text import count, one_line
from gpu_device_plugin.console.screen import Colours, Screen
from gpu_device_plugin.console.table import Cell, Column, Row, table_lines
from gpu_device_plugin.inspection.topology.words import TIMES
from gpu_device_plugin.status.collect import count_held
from gpu_device_plugin.status.model import GpuStatus, Hardware, NodeStatus, ResourceStatus
from gpu_device_plugin.status.show_devices import health_cell
from gpu_device_plugin.status.troubles import Trouble, troubles
from gpu_device_plugin.status.words import (
    Health,
    Offered,
    cause,
    clock_time,
    duration,
    holder_list,
    is_named,
    memory,
    offered_devices,
)

INDENT = "  "
NARROWEST = 40
"""Columns that a sentence has at least before it is wrapped."""

GPU_COLUMNS = (
    Column("GPU", right=True),
    Column("HEALTH"),
    Column("CAUSE", narrowest=16, last_resort=1, is_wanted=True),
    Column("HELD BY", narrowest=16, is_wanted=True),
    Column("NAME", narrowest=12),
    Column("MEMORY", right=True, last_resort=3),
    Column("MIG", last_resort=4, narrowest=12),
    Column("UUID", narrowest=13, last_resort=2, by_middle=True),
)
RESOURCE_COLUMNS = (
    Column("RESOURCE", narrowest=14, by_middle=True),
    Column("CAPACITY", right=True),
    Column("ALLOCATABLE", right=True),
    Column("IN USE", right=True),
    Column("FREE", right=True, last_resort=1),
    Column("SHARING", last_resort=3),
    Column("STATE", narrowest=12, last_resort=2),
)


def status_lines(status: NodeStatus, screen: Screen, resource: str = "") -> Iterator[str]:
    """The node as text.

    Args:
        status: of the node.
        screen: where the text goes.
        resource: only this resource, and what is wrong with its devices.
    """
    colours = screen.colours
    found = [*troubles(status, resource)]
    yield _headline(status, found, colours)
    yield from _wrapped(_facts(status), "", screen)
    if found:
        yield ""
    for trouble in found:
        colour = colours.red if trouble.is_severe else colours.yellow
        mark = colours.paint(colour, "!" if trouble.is_severe else "·")
        lines = _wrapped(trouble.text, INDENT, screen)
        yield f"{mark} {next(lines).lstrip()}"
        yield from lines
    resources = [each for each in status.resources if is_named(each.name, resource)]
    if resources:
        yield ""
        rows = [_resource_row(each, colours) for each in resources]
        yield from table_lines(RESOURCE_COLUMNS, rows, screen.columns, colours)
    if status.hardware is not None and status.hardware.gpus:
        yield ""
        rows = [_gpu_row(gpu, status, colours) for gpu in status.hardware.gpus]
        yield from table_lines(GPU_COLUMNS, rows, screen.columns, colours)


def _headline(status: NodeStatus, found: list[Trouble], colours: Colours) -> str:
    """Node and verdict."""
    severe = sum(trouble.is_severe for trouble in found)
    verdict = colours.paint(colours.green, "well")
    if severe:
        verdict = colours.paint(colours.red, f"NOT WELL, {count(severe, 'problem')}")
    elif any(not resource.health_known for resource in status.resources):
        verdict = colours.paint(colours.yellow, "health not known")
    return f"{colours.paint(colours.bold, one_line(status.node) or 'this node')}: {verdict}"


def _facts(status: NodeStatus) -> str:
    """Hardware and program in one line."""
    hardware = status.hardware
    parts = [] if hardware is None else list(_hardware_facts(hardware))
    if status.program != "gpu-node":
        age = duration(status.time - status.started)
        parts.append(f"{status.program} v{status.version}, up {age}")
    configuration = status.configuration
    if configuration is not None:
        if configuration.profile:
            parts.append(f"profile {configuration.profile}")
        parts.append(f"configuration {configuration.file or 'without a file'}")
        if configuration.reload is not None:
            how = "could not be reloaded" if configuration.reload.error else "reloaded"
            parts.append(f"{how} {clock_time(configuration.reload.time)}")
    return one_line("; ".join(parts))


def _hardware_facts(hardware: Hardware) -> Iterator[str]:
    yield "no driver" if hardware.problem else count(len(hardware.gpus), "GPU")
    if hardware.driver_version:
        cuda = f", CUDA {hardware.cuda_version}" if hardware.cuda_version else ""
        yield f"driver {hardware.driver_version}{cuda}"
    if hardware.simulated:
        yield f"simulated node {hardware.simulated}"
    elif hardware.platform not in {"", "nvml"}:
        yield hardware.platform
    if hardware.watch and hardware.watch != "watching":
        yield f"health: {hardware.watch}"


def _wrapped(text: str, indent: str, screen: Screen) -> Iterator[str]:
    if screen.columns is None:
        yield indent + one_line(text)
        return
    room = max(screen.columns, NARROWEST)
    yield from textwrap.wrap(
        one_line(text),
        room,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _resource_row(resource: ResourceStatus, colours: Colours) -> Row:
    free = "?" if resource.in_use is None else str(_free(resource))
    short = resource.allocatable < resource.capacity
    allocatable = str(resource.allocatable) if resource.health_known else "?"
    return (
        resource.name,
        str(resource.capacity),
        Cell(allocatable, colours.red if short else ""),
        "?" if resource.in_use is None else str(resource.in_use),
        free,
        resource.sharing if resource.sharing != "none" else "",
        _state(resource),
    )


def _free(resource: ResourceStatus) -> int:
    """How many healthy ids nobody holds."""
    return sum(
        (device.replicas or 1) - count_held(device) for device in resource.devices if device.healthy
    )


def _state(resource: ResourceStatus) -> str:
    if resource.state:
        return resource.state
    if not resource.health_known:
        return ""
    return "known to the kubelet" if resource.registered else "not known to the kubelet"


def _gpu_row(gpu: GpuStatus, status: NodeStatus, colours: Colours) -> Row:
    """A GPU with all that is known of its devices."""
    those = [each for each in offered_devices(status) if each.device.gpu_uuid == gpu.uuid]
    health, reasons = gpu_health(gpu, those)
    holders = holder_list(holder for each in those for holder in each.device.holders)
    word = (
        health_cell(health, colours) if health is not None else Cell("not offered", colours.yellow)
    )
    mig = ", ".join(
        f"{number} {TIMES} {profile}" if number > 1 else profile
        for profile, number in _counted(m.profile for m in gpu.mig_devices).items()
    )
    return (
        str(gpu.index),
        word,
        Cell("; ".join(reasons), colours.red),
        holders,
        gpu.name,
        memory(gpu.memory_bytes),
        mig or ("enabled" if gpu.mig_enabled else ""),
        gpu.uuid,
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def gpu_health(gpu: GpuStatus, devices: list[Offered]) -> tuple[Health | None, list[str]]:
    """How a GPU is, and why.

    Args:
        gpu: as it was read.
        devices: that are offered of it, in whatever resource.

    Returns:
        The worst of its devices with the causes; None as long as nothing of it is offered.
    """
    if gpu.lost:
        return Health.UNHEALTHY, [f"cannot be read: {gpu.lost}"]
    if not devices:
        return None, []
    sick = [each for each in devices if each.health is Health.UNHEALTHY]
    if sick:
        return Health.UNHEALTHY, list(dict.fromkeys(cause(each.device.illness) for each in sick))
    if any(each.health is Health.UNKNOWN for each in devices):
        return Health.UNKNOWN, []
    return Health.HEALTHY, []
