"""What tables say about health, holders and times, in words."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.status.model import (
    DeviceStatus,
    Hardware,
    Holder,
    Illness,
    NodeStatus,
    ResourceStatus,
)

MINUTE, HOUR, DAY = 60, 3600, 86400
GIB = 2**30
HOLDERS_SHOWN = 3
"""Of those of one device; with replicas there may be a hundred."""


class Health(StrEnum):
    """How a device is."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


SEVERITY_WORDS = {
    "provisional": "not watched yet",
    "unwatchable": "cannot be watched",
    "until-reset": "until it is reset",
    "lost": "cannot be read",
}
"""What is said of an illness besides its reason; nothing of one that may be over any time."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A device with the resource that it is offered in."""

    resource: ResourceStatus
    device: DeviceStatus

    @property
    def health(self) -> Health:
        """How it is."""
        if not self.device.healthy:
            return Health.UNHEALTHY
        return Health.HEALTHY if self.resource.health_known else Health.UNKNOWN


def offered_devices(status: NodeStatus, resource: str = "") -> Iterator[Offered]:
    """All devices in order of resource and index.

    Args:
        status: of the node.
        resource: only those of the resource with this name, which may lack its prefix.
    """
    for each in status.resources:
        if is_named(each.name, resource):
            for device in each.devices:
                yield Offered(each, device)


def is_named(resource: str, wanted: str) -> bool:
    """Whether a resource is meant; an empty name means every one."""
    return not wanted or wanted in {resource, resource.partition("/")[2]}


def cause(illness: Illness | None) -> str:
    """``XID 79: GPU has fallen off the bus``; empty where nothing is wrong."""
    if illness is None:
        return ""
    return f"{illness.reason}: {illness.meaning}" if illness.meaning else illness.reason


def course(illness: Illness, now: float) -> str:
    """``until it is reset, since 3 min, 4 times``; empty where nothing is known."""
    parts = [SEVERITY_WORDS.get(illness.severity, "")]
    if illness.first:
        parts.append(f"since {duration(now - illness.first)} ({clock_time(illness.first)})")
    if illness.count > 1:
        parts.append(f"{illness.count} times")
    return ", ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``, ``5 d 2 h``."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def clock_time(seconds: float) -> str:
    """The time of day with its date, where the reader is; ``?`` beyond all calendars."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"


def memory(size: int) -> str:
    """``40 GiB``, ``4.8 GiB``; empty if it is not known."""
    if not size:
        return ""
    amount = size / GIB
    return f"{amount:.0f} GiB" if amount >= 10 else f"{amount:.1f} GiB"


def number_ranges(numbers: Iterable[int]) -> str:
    """``0-3,7`` for 0, 1, 2, 3 and 7."""
    parts = list[list[int]]()
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)


def holder_name(holder: Holder, *, alone: bool) -> str:
    """``ml/train``, with the container where the pod has others that hold the device."""
    name = f"{holder.namespace}/{holder.pod}"
    return name if alone else f"{name}/{holder.container}"


def holder_names(holders: Iterable[Holder]) -> Iterator[str]:
    """The pods that hold a device, each with the replicas that it has."""
    those = list(holders)
    containers: dict[tuple[str, str], set[str]] = {}
    for holder in those:
        containers.setdefault((holder.namespace, holder.pod), set()).add(holder.container)
    for holder in those:
        alone = len(containers[holder.namespace, holder.pod]) == 1
        name = holder_name(holder, alone=alone)
        yield f"{name} [{number_ranges(holder.replicas)}]" if holder.replicas else name


def holder_list(holders: Iterable[Holder]) -> str:
    """The first pods that hold a device, and how many more do; ``gpu-node pods`` has them all."""
    names = list(dict.fromkeys(holder_names(holders)))
    text = ", ".join(names[:HOLDERS_SHOWN])
    more = len(names) - HOLDERS_SHOWN
    return f"{text} and {more} more" if more > 0 else text


def device_names(hardware: Hardware | None) -> dict[str, str]:
    """What each GPU and MIG device is called by its maker, by UUID: name or profile."""
    names = dict[str, str]()
    for gpu in () if hardware is None else hardware.gpus:
        names[gpu.uuid] = gpu.name
        names.update({mig.uuid: mig.profile for mig in gpu.mig_devices})
    return names
