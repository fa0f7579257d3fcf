"""What is wrong with a node, in sentences, the worst first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.status.model import NodeStatus
from gpu_device_plugin.status.words import (
    Offered,
    cause,
    course,
    duration,
    holder_list,
    offered_devices,
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that keeps pods from what they could have, or may do so."""

    text: str
    is_severe: bool = True
    """Whether the node is not well because of it."""


def troubles(status: NodeStatus, resource: str = "") -> Iterator[Trouble]:
    """What is wrong, the worst first, a sentence each.

    Args:
        status: of the node.
        resource: leave out what is wrong with devices of others.
    """
    hardware = status.hardware
    for reason in status.live.reasons:
        yield Trouble(f"not alive: {reason}")
    if hardware is not None:
        if hardware.problem and not any(hardware.problem in r for r in status.ready.reasons):
            yield Trouble(f"no GPUs: {hardware.problem}")
        for sentence in hardware.unreadable:
            yield Trouble(sentence)
    yield from _sick(status, resource)
    for reason in status.ready.reasons:
        yield Trouble(f"not ready: {reason}")
    yield from _minor(status)


def _sick(status: NodeStatus, resource: str) -> Iterator[Trouble]:
    """Devices that are unhealthy, those of one GPU and one cause in one sentence."""
    groups: dict[tuple[str, str, str], list[Offered]] = {}
    for each in offered_devices(status, resource):
        illness = each.device.illness
        if illness is not None:
            key = (each.device.gpu_uuid or each.device.id, cause(illness), each.resource.name)
            groups.setdefault(key, []).append(each)
    for (_, reason, name), those in groups.items():
        illness = those[0].device.illness
        more = course(illness, status.time) if illness is not None else ""
        held = holder_list(holder for each in those for holder in each.device.holders)
        indices = ", ".join(each.device.index for each in those)
        parts = [f"GPU {indices} ({name}): {reason}", more]
        parts += [f"held by {held}"] if held else []
        yield Trouble("; ".join(part for part in parts if part))


def _minor(status: NodeStatus) -> Iterator[Trouble]:
    """What does not keep the node from working."""
    configuration = status.configuration
    if configuration is not None:
        if configuration.problem and not any(
            configuration.problem in reason for reason in status.ready.reasons
        ):
            yield Trouble(f"configuration: {configuration.problem}")
        for warning in configuration.warnings:
            yield Trouble(f"configuration: {warning}", is_severe=False)
    if status.labelling is not None and status.labelling.problem:
        yield Trouble(f"labels: {status.labelling.problem}")
    for mps in status.mps:
        if not mps.ready:
            yield Trouble(f"MPS of {mps.resource} is not ready: {mps.detail}")
    for former in status.pods.former:
        name = holder_list([former.holder])
        what = f"GPU {former.index}" if former.index else former.device
        yield Trouble(
            f"{name} holds {what} as {former.resource}, as it is not offered any more",
            is_severe=False,
        )


def is_well(status: NodeStatus, resource: str = "") -> bool:
    """Whether the program does its work and no device is known to be unhealthy."""
    return not any(trouble.is_severe for trouble in troubles(status, resource))


def pods_note(status: NodeStatus) -> str:
    """Why it is not known who holds what, or not as of now; empty if it is."""
    pods = status.pods
    if not pods.problem:
        return ""
    if not pods.time:
        return f"which pods hold which devices is not known: {pods.problem}"
    age = duration(status.time - pods.time)
    return f"which pods hold which devices is known as of {age} ago only: {pods.problem}"
