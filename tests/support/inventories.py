"""Inventories as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpu_device_plugin.hardware.model import (
    Gpu,
    Inventory,
    MigAttributes,
    MigDevice,
    MigProfile,
    Platform,
)

SLICES = {1: (0, 5), 2: (1, 10), 3: (2, 20), 7: (4, 40)}
PROFILES = ("1g.5gb", "1g.5gb+me", "2g.10gb", "3g.20gb", "7g.40gb")


def a_gpu(index: int, **changes: object) -> Gpu:
    """An A100 with that index."""
    gpu = Gpu(
        index=index,
        uuid=f"GPU-{index}",
        minor=index + 10,
        name="NVIDIA A100-SXM4-40GB",
        memory_bytes=40 << 30,
        compute_capability=(8, 0),
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        numa_node=index // 2,
        mig_capable=True,
        mig_profiles=PROFILES,
    )
    return replace(gpu, **changes)  # type: ignore[arg-type]  # the names are those of the fields


def a_mig_device(slot: int, gpu: int, slices: int = 1, *, compute: int | None = None) -> MigDevice:
    """A MIG device in that slot; the compute instance fills it unless told otherwise."""
    memory = SLICES[slices][1]
    return MigDevice(
        slot=slot,
        uuid=f"MIG-{gpu}-{slot}",
        gpu_instance=slot + 7,
        compute_instance=0,
        profile=MigProfile(compute or slices, slices, memory),
        attributes=MigAttributes(14 * slices, slices, 0, 0, 0, 0, slices, compute or slices, 4864),
        memory_bytes=memory << 30,
        capability_minors=(100 * gpu + 9 * slot, 100 * gpu + 9 * slot + 1),
    )


def cut_gpu(index: int, *slices: int) -> Gpu:
    """A GPU with MIG enabled and such MIG devices."""
    devices = tuple(a_mig_device(slot, index, size) for slot, size in enumerate(slices))
    return a_gpu(index, mig_enabled=True, mig_devices=devices)


def a_node(gpus: Sequence[Gpu] | int = 2, platform: Platform = Platform.NVML) -> Inventory:
    """A node with these GPUs, or as many plain ones."""
    if isinstance(gpus, int):
        gpus = [a_gpu(index) for index in range(gpus)]
    return Inventory(platform, tuple(gpus), driver_version="550.127.05", cuda_driver_version=12040)
