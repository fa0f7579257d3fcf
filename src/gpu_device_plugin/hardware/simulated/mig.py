"""MIG layouts of simulated GPUs, placed as the driver places them.

The NVIDIA MIG user guide ("MIG device profiles", "Creating GPU instances") is the source of the
sizes and start positions. GPU instance ids number the possible places like the nodes of a binary
tree: 0 is the whole GPU, 1 and 2 are its halves, 3 to 6 the quarters, 7 to 13 the eighths.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, MigAttributes, MigDevice
from gpu_device_plugin.hardware.simulated.products import MigSlice, Product
from gpu_device_plugin.hardware.simulated.yaml import quote

FIRST_MINOR = 3
"""Minor of the first GPU instance's capability node; 1 and 2 belong to ``config``, ``monitor``."""
COMPUTE_INSTANCES = 8
"""Compute instances for which the driver keeps capability nodes, of each GPU instance."""
GPU_INSTANCES = 15
"""GPU instances for which the driver keeps capability nodes, of each GPU."""


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance that is asked for, and how it is divided into compute instances."""

    slice: MigSlice
    compute_instances: tuple[int, ...]
    """Slices of each."""


Layout = tuple[GpuInstance, ...]


def parse_layout(product: Product, words: Iterable[str]) -> Layout:
    """The layout that a list of profiles stands for.

    Args:
        product: what is to be cut.
        words: profiles such as ``1g.5gb``, or with compute instances ``3g.20gb:1c+2c``.

    Raises:
        ConfigError: the product has no such profile, or they do not fit on it together.
    """
    if not product.mig_slices:
        raise ConfigError(f"{product.name} has no MIG")
    by_name = {slice_.name: slice_ for slice_ in product.mig_slices}
    layout = list[GpuInstance]()
    for word in words:
        name, colon, parts = word.partition(":")
        slice_ = by_name.get(name)
        if slice_ is None:
            raise ConfigError(
                f"{product.name} has no MIG profile {quote(name)}", "allowed: " + ", ".join(by_name)
            )
        sizes = _compute_sizes(slice_, parts) if colon else (slice_.profile.gpu_slices,)
        layout.append(GpuInstance(slice_, sizes))
    _place(product, layout)
    return tuple(layout)


def _compute_sizes(slice_: MigSlice, parts: str) -> tuple[int, ...]:
    most = slice_.profile.gpu_slices
    known = {f"{size}c": size for size in range(1, most + 1)}
    sizes = tuple(known.get(part, 0) for part in parts.split("+"))
    if 0 in sizes or sum(sizes) > most:
        raise ConfigError(
            f"{quote(parts)} are no compute instances of {slice_.name}",
            f"allowed: 1c to {most}c joined by +, together {most}c at most",
        )
    return sizes


def _place(product: Product, layout: Sequence[GpuInstance]) -> list[tuple[int, GpuInstance]]:
    """The instances with their ids, in the order of the ids."""
    whole = max((slice_.profile.gpu_slices for slice_ in product.mig_slices), default=0)
    # A GPU with seven compute slices has eight of memory.
    memory_slices = 8 if whole == 7 else whole

    def size(instance: GpuInstance) -> int:
        share = instance.slice.memory_mib * memory_slices / product.memory_mib
        return next(power for power in (1, 2, 4, 8) if power >= share)

    for slice_ in {instance.slice for instance in layout}:
        count = sum(instance.slice == slice_ for instance in layout)
        if count > slice_.instances:
            raise ConfigError(
                f"{count} MIG instances {slice_.name} on {product.name}",
                f"allowed: {slice_.instances} at most",
            )
    placed = list[tuple[int, GpuInstance]]()
    taken = set[int]()
    # Largest first: as places are aligned to their size, nothing then blocks what still comes.
    for instance in sorted(layout, key=lambda i: (-size(i), -i.slice.profile.gpu_slices)):
        width = size(instance)
        starts = range(0, whole - instance.slice.profile.gpu_slices + 1, width)
        # From the end, as the driver does: the last memory slice is of use to large ones only.
        for start in reversed(starts):
            cells = range(start, start + width)
            if taken.isdisjoint(cells):
                taken.update(cells)
                placed.append((memory_slices // width - 1 + start // width, instance))
                break
        else:
            names = ", ".join(i.slice.name for i in layout)
            raise ConfigError(f"the MIG instances {names} do not fit on one {product.name}")
    return sorted(placed, key=lambda pair: pair[0])


def make_devices(
    gpu: Gpu, product: Product, layout: Layout, slots: Sequence[int] = ()
) -> tuple[MigDevice, ...]:
    """The MIG devices of a GPU, by GPU instance, then compute instance.

    Args:
        gpu: the GPU that is cut.
        product: what it is.
        layout: how it is cut.
        slots: NVML's MIG indices of the devices, where they are not just counted.
    """
    devices = tuple(_devices(gpu, _place(product, layout)))
    numbers = slots if len(slots) == len(devices) else range(len(devices))
    return tuple(replace(device, slot=slot) for device, slot in zip(devices, numbers, strict=True))


def _devices(gpu: Gpu, placed: Iterable[tuple[int, GpuInstance]]) -> Iterator[MigDevice]:
    for gi, instance in placed:
        for ci, size in enumerate(instance.compute_instances):
            slice_ = instance.slice
            yield MigDevice(
                slot=0,
                uuid=f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{gpu.uuid}/{gi}/{ci}')}",
                gpu_instance=gi,
                compute_instance=ci,
                profile=replace(slice_.profile, compute_slices=size),
                attributes=_attributes(slice_, size),
                memory_bytes=slice_.memory_mib << 20,
                capability_minors=capability_minors(gpu.minor, gi, ci),
            )


def _attributes(slice_: MigSlice, compute_slices: int) -> MigAttributes:
    """Engines and memory are shared by all compute instances of a GPU instance."""
    slices = slice_.profile.gpu_slices
    return MigAttributes(
        multiprocessors=slice_.multiprocessors * compute_slices // slices,
        shared_copy_engines=slice_.copy_engines,
        shared_decoders=slice_.decoders,
        shared_encoders=slice_.encoders,
        shared_jpeg=slice_.jpeg,
        shared_ofa=slice_.ofa,
        gpu_instance_slices=slices,
        compute_instance_slices=compute_slices,
        memory_mib=slice_.memory_mib,
    )


def capability_minors(gpu_minor: int, gi: int, ci: int) -> tuple[int, int]:
    """Minors of the nodes of GPU and compute instance, as the driver's ``mig-minors`` lists them."""
    per_instance = 1 + COMPUTE_INSTANCES
    instance = FIRST_MINOR + (gpu_minor * GPU_INSTANCES + gi) * per_instance
    return instance, instance + 1 + ci
