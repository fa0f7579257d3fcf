"""What each class's generator hands back, before it becomes a specification."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_device_plugin.cdi.model import ContainerEdits, Device

VOID = ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",))
"""Keeps NVIDIA's own runtime from adding devices to a container that gets them by CDI."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Devices and common edits as this process sees their paths."""

    devices: tuple[Device, ...]
    edits: ContainerEdits = field(default_factory=ContainerEdits)


@dataclass(frozen=True, slots=True)
class Dropped:
    """The class has no specification, which is no reason to stop."""

    reason: str


NOTHING_OFFERED = Dropped("extensions.gpus leaves out every GPU")
