"""From a happening to what is told of it: reason, severity and one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.kube.errors import short_line
from gpu_device_plugin.reports.advice import LOST, UNWATCHED, advice_on
from gpu_device_plugin.reports.model import GpuHealth, NodeHealth
from gpu_device_plugin.telemetry import (
    Happening,
    HealthChanged,
    Outcome,
    ProfileApplied,
    Reloaded,
    Turn,
)

LONGEST = 1024
"""Characters of a message, as the API allows for a note of events.k8s.io/v1."""


class Reason(StrEnum):
    """Why an event was made, for machines; documented in ``docs/events.md``."""

    XID = "GPUXid"
    LOST = "GPULost"
    NOT_WATCHED = "GPUNotWatched"
    RECOVERED = "GPURecovered"
    CONFIG_REJECTED = "GPUConfigRejected"
    CONFIG_ACCEPTED = "GPUConfigAccepted"

    @property
    def is_warning(self) -> bool:
        """Whether somebody has to look at it."""
        return self not in {Reason.RECOVERED, Reason.CONFIG_ACCEPTED}


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that Kubernetes is told; equal reason and subject mean the same thing again."""

    reason: Reason
    subject: str
    """GPU, and what is known against it."""
    happening: HealthChanged | Reloaded | ProfileApplied

    @property
    def key(self) -> tuple[str, str]:
        """By which it is recognised when it happens again."""
        return self.reason, self.subject

    def text(self, node: NodeHealth) -> str:
        """One sentence on it.

        Args:
            node: how the GPUs are doing now.
        """
        if isinstance(self.happening, HealthChanged):
            text = "; ".join(_on_gpu(self.happening, node))
        else:
            text = "; ".join(_on_configuration(self.happening))
        return f"{short_line(text, LONGEST - 1)}."


class Notices:
    """Makes notices; knows what was rejected last time: a reload, the choice of a profile."""

    def __init__(self) -> None:
        self._rejected = set[type]()

    def of(self, happening: Happening) -> Notice | None:
        """What is told of a happening; None if nothing is."""
        if isinstance(happening, HealthChanged):
            return _health_notice(happening)
        if isinstance(happening, Reloaded | ProfileApplied):
            return self._configuration_notice(happening)
        return None

    def _configuration_notice(self, happening: Reloaded | ProfileApplied) -> Notice | None:
        if happening.outcome is not Outcome.OK:
            self._rejected.add(type(happening))
            return Notice(Reason.CONFIG_REJECTED, happening.error[:LONGEST], happening)
        was_rejected = type(happening) in self._rejected
        self._rejected.discard(type(happening))
        if not was_rejected or self._rejected:
            return None
        return Notice(Reason.CONFIG_ACCEPTED, "", happening)


def _health_notice(changed: HealthChanged) -> Notice | None:
    if changed.turn is Turn.IGNORED:
        return None
    if changed.turn is Turn.HEALTHY:
        return Notice(Reason.RECOVERED, changed.gpu_uuid, changed)
    if changed.xid is not None:
        return Notice(Reason.XID, f"{changed.gpu_uuid} {changed.xid} {changed.turn}", changed)
    reason = Reason.LOST if changed.is_lost else Reason.NOT_WATCHED
    return Notice(reason, changed.gpu_uuid, changed)


def _on_gpu(changed: HealthChanged, node: NodeHealth) -> Iterator[str]:
    gpus = [gpu for gpu in node.gpus if changed.gpu_uuid in {gpu.uuid, ""}]
    subject = gpu_name(gpus[0]) if changed.gpu_uuid and gpus else changed.gpu_uuid
    yield f"{f'GPU {subject}' if subject else 'all GPUs'}: {_cause(changed)}"
    if changed.turn is Turn.HEALTHY:
        if back := _counted(_in_full(changed.devices, gpus)):
            yield f"healthy again: {back}"
        return
    if changed.turn is Turn.WARNED:
        yield "nothing is done about it, as the configuration says"
    elif gone := _counted(_unhealthy(gpus)):
        yield f"unhealthy: {gone}"
    yield _advice(changed)


def _cause(changed: HealthChanged) -> str:
    if changed.is_lost and changed.turn is not Turn.HEALTHY:
        return f"cannot be read any more: {short_line(changed.reason)}"
    return short_line(changed.meaning or changed.reason)


def _advice(changed: HealthChanged) -> str:
    if changed.is_lost:
        return LOST
    return UNWATCHED if changed.xid is None else advice_on(changed.xid)


def gpu_name(gpu: GpuHealth) -> str:
    """``2 (GPU-…, PCI 00000000:3B:00.0)``."""
    place = f", PCI {gpu.pci_bus_id}" if gpu.pci_bus_id else ""
    return f"{gpu.index} ({gpu.uuid}{place})"


def _unhealthy(gpus: Iterable[GpuHealth]) -> dict[str, tuple[int, int]]:
    """By resource, how many are unhealthy, and of how many."""
    counts = dict[str, tuple[int, int]]()
    for gpu in gpus:
        for share in gpu.shares:
            some, of = counts.get(share.resource, (0, 0))
            counts[share.resource] = some + share.count(share.unhealthy), of + share.count()
    return counts


def _in_full(
    devices: Iterable[tuple[str, str]], gpus: Iterable[GpuHealth]
) -> dict[str, tuple[int, int]]:
    """By resource, how many the kubelet counts for these devices, and of how many."""
    named, counts = set(devices), dict[str, tuple[int, int]]()
    for gpu in gpus:
        for share in gpu.shares:
            some, of = counts.get(share.resource, (0, 0))
            ids = {i for resource, i in named if resource == share.resource}
            counts[share.resource] = some + share.count(ids), of + share.count()
    return counts


def _counted(counts: Mapping[str, tuple[int, int]]) -> str:
    """``4 of 4 nvidia.com/gpu``; resources of which there are none are left out."""
    return ", ".join(f"{some} of {of} {name}" for name, (some, of) in counts.items() if some)


def _on_configuration(happening: Reloaded | ProfileApplied) -> Iterator[str]:
    profile = happening.profile if isinstance(happening, ProfileApplied) else ""
    subject = f"the configuration {profile}" if profile else "the configuration"
    if happening.outcome is Outcome.OK:
        yield f"{subject} is in force; what was wrong with the one before is over"
        return
    if isinstance(happening, Reloaded) and happening.is_passing:
        yield f"{subject} cannot be applied for now: {short_line(happening.error)}"
        yield "the former one stays in force; it is tried again by itself"
        return
    yield f"{subject} cannot be used: {short_line(happening.error)}"
    yield "the last good one stays in force; mend it, it is read again at the next reload"
