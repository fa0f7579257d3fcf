"""A simulated node as its profile describes it, before anything happens to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpu_device_plugin.hardware.model import Gpu, Links, Platform
from gpu_device_plugin.hardware.simulated.mig import Layout
from gpu_device_plugin.hardware.simulated.products import Product

MOST_GPUS = 64
"""GPUs of one node; NVIDIA's driver takes as many."""


class Watch(StrEnum):
    """Whether a GPU's health can be watched."""

    WATCHED = "watched"
    UNWATCHED = "unwatched"
    """It counts as healthy and reports nothing, as old GPUs do."""
    UNMONITORABLE = "unmonitorable"
    """Watching fails, which says that it may be broken."""


@dataclass(frozen=True, slots=True)
class ProfileGpu:
    """A GPU as the profile has it at the start."""

    gpu: Gpu
    """All of it but its MIG devices."""
    product: Product
    watch: Watch = Watch.WATCHED
    layout: Layout | None = None
    """None if MIG is off."""
    mig_slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """A simulated node before anything happens to it."""

    name: str
    machine: str = ""
    platform: Platform = Platform.NVML
    driver_version: str = ""
    cuda_driver_version: int = 0
    """As NVML tells it: 12040 is CUDA 12.4."""
    init_error: str = ""
    """Why the driver cannot be used; empty if it can."""
    events_file: str = ""
    gpus: tuple[ProfileGpu, ...] = ()
    links: Links = field(default_factory=Links)
