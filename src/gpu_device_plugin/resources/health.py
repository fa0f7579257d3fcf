"""Health of devices: what is done about an event, and which devices it hits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_device_plugin.config.model import HealthSettings, MonitorFailure, XidAction
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind
from gpu_device_plugin.resources.model import Device
from gpu_device_plugin.resources.xids import APPLICATION_XIDS

log = logging.getLogger(__name__)

DISABLE_VARIABLE = "DP_DISABLE_HEALTHCHECKS"
ENABLE_VARIABLE = "DP_ENABLE_HEALTHCHECKS"
ALL_WORDS = frozenset({"all", "xids"})
MAX_XID = 2**64 - 1
BREAKING = frozenset({XidAction.UNHEALTHY, XidAction.UNHEALTHY_UNTIL_RESET})
"""Actions that take a device away."""


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
            number = _number(word)
            if number is None:
                log.warning(
                    "%s: %r is no XID and is ignored (decimal numbers, 'all' or 'xids')",
                    variable,
                    word,
                )
            else:
                numbers.add(number)
        return cls(numbers=frozenset(numbers))


def _number(word: str) -> int | None:
    if not (word.isascii() and word.isdigit() and len(word) <= len(str(MAX_XID))):
        return None
    return int(word) if int(word) <= MAX_XID else None


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """What is done about events: the variables of the original, then the configuration."""

    disabled: XidList = field(default_factory=XidList)
    enabled: XidList = field(default_factory=XidList)
    settings: HealthSettings = field(default_factory=HealthSettings)

    @classmethod
    def of(cls, environ: Mapping[str, str], settings: HealthSettings | None = None) -> HealthPolicy:
        """Reads the two variables; the settings are those of ``extensions.health``."""
        return cls(
            XidList.parse(DISABLE_VARIABLE, environ.get(DISABLE_VARIABLE, "")),
            XidList.parse(ENABLE_VARIABLE, environ.get(ENABLE_VARIABLE, "")),
            settings or HealthSettings(),
        )

    @property
    def is_off(self) -> bool:
        """Whether no event can count, so that nothing needs to be watched."""
        return self.disabled.all and not self.enabled.all and not self.enabled.numbers

    def action(self, xid: int) -> XidAction:
        """What that XID does to the devices it hits.

        The variables say whether an XID counts at all, the configuration how much, and where
        neither says anything an XID that applications cause does nothing.
        """
        configured = self.settings.xids.get(xid)
        if self.enabled.all or xid in self.enabled.numbers:
            return configured if configured in BREAKING else XidAction.UNHEALTHY
        if self.disabled.all or xid in self.disabled.numbers:
            return XidAction.IGNORE
        if configured is not None:
            return configured
        return XidAction.IGNORE if xid in APPLICATION_XIDS else XidAction.UNHEALTHY

    def action_on(self, event: HealthEvent) -> XidAction:
        """What any event does to the devices it hits."""
        if event.kind is HealthKind.XID:
            return XidAction.UNHEALTHY if event.xid is None else self.action(event.xid)
        if event.kind in {HealthKind.MONITOR_READY, HealthKind.MONITORABLE}:
            return XidAction.IGNORE
        if event.kind is HealthKind.LOST:
            return XidAction.UNHEALTHY
        unmonitored = self.settings.monitor_failure is MonitorFailure.UNMONITORED
        return XidAction.WARN if unmonitored else XidAction.UNHEALTHY


def devices_hit(devices: Iterable[Device], event: HealthEvent) -> list[Device]:
    """The devices that an event is about.

    An event on a GPU hits everything on it: all replicas and all MIG devices. One that names a
    GPU instance, or that and a compute instance, spares the MIG devices elsewhere.
    """
    return [device for device in devices if _is_hit(device, event)]


def _is_hit(device: Device, event: HealthEvent) -> bool:
    if event.uuid is None:
        return True
    if device.gpu_uuid != event.uuid:
        return False
    if device.mig_instances is None:
        return True
    named = (event.gpu_instance, event.compute_instance)
    return all(
        wanted is None or wanted == there
        for wanted, there in zip(named, device.mig_instances, strict=True)
    )
