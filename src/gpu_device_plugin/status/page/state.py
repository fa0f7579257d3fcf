"""How each GPU is doing, from what its devices say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from gpu_device_plugin.status.model import (
    DeviceStatus,
    GpuStatus,
    Illness,
    NodeStatus,
    ResourceStatus,
)


class Level(IntEnum):
    """How much something asks for attention."""

    GOOD = 0
    NOTE = 1
    """Worth knowing, nothing to do."""
    WARN = 2
    """Something does not work as it should."""
    BAD = 3
    """GPUs are not usable."""

    @property
    def style(self) -> str:
        """Its class in the style sheet."""
        return self.name.lower()

    @property
    def symbol(self) -> str:
        """What tells it apart without colour."""
        return "✓i!✕"[self]


CONDITIONS = {
    "provisional": "not watched",
    "recoverable": "unhealthy",
    "unwatchable": "cannot be watched",
    "until-reset": "needs a reset",
    "lost": "lost",
}
"""What a device is, by the severity of its illness."""

ENDS = {
    "provisional": "Over as soon as the driver reports on the GPU.",
    "recoverable": (
        "Over after a quiet period where recovery is switched on, "
        "else when the plugin reloads or starts anew."
    ),
    "unwatchable": "Over when the driver watches the GPU again, which is tried again and again.",
    "until-reset": "Over when the GPU has been reset, or when the plugin starts anew.",
    "lost": "Over when the GPU can be read again, which takes a reset at least.",
}
"""What ends an illness, by its severity."""

ORDER = tuple(CONDITIONS)


@dataclass(frozen=True, slots=True)
class Offer:
    """A device and the resource that it is offered under."""

    resource: ResourceStatus
    device: DeviceStatus


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU with everything that is offered of it."""

    gpu: GpuStatus
    offers: tuple[Offer, ...]

    @property
    def ill(self) -> tuple[DeviceStatus, ...]:
        """Its unhealthy devices."""
        return tuple(offer.device for offer in self.offers if not offer.device.healthy)

    @property
    def is_hit_as_a_whole(self) -> bool:
        """Whether nothing of it is healthy."""
        return bool(self.gpu.lost) or (bool(self.ill) and len(self.ill) == len(self.offers))

    @property
    def illness(self) -> Illness | None:
        """The firmest of its devices' illnesses."""
        known = [device.illness for device in self.ill if device.illness is not None]
        return max(known, key=lambda illness: _rank(illness.severity), default=None)

    @property
    def level(self) -> Level:
        """Whether it asks for attention."""
        if self.gpu.lost or self.ill:
            return Level.BAD
        return Level.GOOD if self.offers else Level.NOTE

    @property
    def condition(self) -> str:
        """How it is, in a word or two."""
        if self.gpu.lost:
            return CONDITIONS["lost"]
        if not self.ill:
            return "healthy" if self.offers else "not offered"
        if not self.is_hit_as_a_whole:
            return f"{len(self.ill)} of {len(self.offers)} unhealthy"
        return "unhealthy" if self.illness is None else condition_of(self.illness)

    def of_mig(self, uuid: str) -> tuple[Offer, ...]:
        """What is offered of one of its MIG devices."""
        return tuple(offer for offer in self.offers if offer.device.id == uuid)

    @property
    def as_a_whole(self) -> tuple[Offer, ...]:
        """What is offered of it but for MIG devices that it lists."""
        listed = {mig.uuid for mig in self.gpu.mig_devices}
        return tuple(offer for offer in self.offers if offer.device.id not in listed)


def _rank(severity: str) -> int:
    return ORDER.index(severity) if severity in ORDER else len(ORDER)


def condition_of(illness: Illness) -> str:
    """What a device with an illness is, in a word or two."""
    return CONDITIONS.get(illness.severity, "unhealthy")


def cause_first(illness: Illness) -> str:
    """``XID 79: GPU has fallen off the bus``, as a sentence begins."""
    text = f"{illness.reason}: {illness.meaning}" if illness.meaning else illness.reason
    return text[:1].upper() + text[1:]


def cause_of(illness: Illness) -> str:
    """``GPU has fallen off the bus (XID 79)``."""
    return f"{illness.meaning} ({illness.reason})" if illness.meaning else illness.reason


def view_gpus(status: NodeStatus) -> tuple[GpuView, ...]:
    """The GPUs of the node in the order of their indices, each with what is offered of it."""
    if status.hardware is None:
        return ()
    offers = dict[str, list[Offer]]()
    for resource in status.resources:
        for device in resource.devices:
            offers.setdefault(device.gpu_uuid, []).append(Offer(resource, device))
    return tuple(GpuView(gpu, tuple(offers.get(gpu.uuid, ()))) for gpu in status.hardware.gpus)


def mig_devices(views: Sequence[GpuView]) -> Iterator[DeviceStatus]:
    """All MIG devices that are offered."""
    for view in views:
        yield from (offer.device for offer in view.offers if offer.device.mig)
