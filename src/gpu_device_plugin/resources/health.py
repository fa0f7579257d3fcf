"""Health of devices: which events count, and which devices they hit.

Devices never recover by themselves, as in the original; a reload reads them anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_device_plugin.hardware.model import HealthEvent, HealthKind
from gpu_device_plugin.resources.model import Device

log = logging.getLogger(__name__)

DISABLE_VARIABLE = "DP_DISABLE_HEALTHCHECKS"
ENABLE_VARIABLE = "DP_ENABLE_HEALTHCHECKS"
ALL_WORDS = frozenset({"all", "xids"})
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that an application causes: the GPU is well (k8s-device-plugin, internal/rm/health.go)."""


@dataclass(frozen=True, slots=True)
class XidList:
    """One of the two environment variables: some XIDs, or all of them."""

    all: bool = False
    numbers: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, variable: str, text: str) -> XidList:
        """Parses ``79, 48`` or ``all``; what is no number is named in a warning and left out."""
        words = [word.strip() for word in text.lower().split(",")]
        if ALL_WORDS.intersection(words):
            return cls(all=True)
        numbers = set[int]()
        for word in filter(None, words):
            if word.isascii() and word.isdigit() and int(word[:20]) < 2**64 and len(word) <= 20:
                numbers.add(int(word))
            else:
                log.warning(
                    "%s: %r is no XID and is ignored (decimal numbers, 'all' or 'xids')",
                    variable,
                    word,
                )
        return cls(numbers=frozenset(numbers))


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """Which XIDs make a device unhealthy."""

    disabled: XidList = field(default_factory=XidList)
    enabled: XidList = field(default_factory=XidList)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> HealthPolicy:
        """Reads the two variables of the original."""
        return cls(
            XidList.parse(DISABLE_VARIABLE, environ.get(DISABLE_VARIABLE, "")),
            XidList.parse(ENABLE_VARIABLE, environ.get(ENABLE_VARIABLE, "")),
        )

    @property
    def is_off(self) -> bool:
        """Whether no event can count, so that nothing needs to be watched."""
        return self.disabled.all and not self.enabled.all and not self.enabled.numbers

    def ignores(self, xid: int) -> bool:
        """Whether that XID says nothing about the health of a GPU."""
        if self.enabled.all or xid in self.enabled.numbers:
            return False
        return self.disabled.all or xid in self.disabled.numbers or xid in APPLICATION_XIDS

    def counts(self, event: HealthEvent) -> bool:
        """Whether an event makes devices unhealthy."""
        if event.kind is HealthKind.MONITOR_READY:
            return False
        return event.kind is not HealthKind.XID or event.xid is None or not self.ignores(event.xid)


def devices_hit(devices: Iterable[Device], event: HealthEvent) -> list[Device]:
    """The devices that an event is about.

    An event on a GPU hits everything on it: all replicas and all MIG devices. One that names a
    GPU instance and a compute instance spares the other MIG devices.
    """
    return [device for device in devices if _is_hit(device, event)]


def _is_hit(device: Device, event: HealthEvent) -> bool:
    if event.uuid is None:
        return True
    if device.gpu_uuid != event.uuid:
        return False
    if device.mig_instances is None:
        return True
    if event.gpu_instance is None or event.compute_instance is None:
        return True
    return device.mig_instances == (event.gpu_instance, event.compute_instance)
