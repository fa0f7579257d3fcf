"""MIG devices and profiles as NVML tells them.

Profiles are named as go-nvlib names them (pkg/nvlib/device, mig_profile.go), which is what
``nvidia-smi mig -lgip`` shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pynvml

from gpu_device_plugin.hardware.mig_minors import MigMinors
from gpu_device_plugin.hardware.model import MigAttributes, MigDevice, MigProfile
from gpu_device_plugin.hardware.nvml.library import NOT_THERE, NvmlError

GPU_INSTANCE_SLICES = {
    **dict.fromkeys((0, 7, 9, 10, 13, 15), 1),
    **dict.fromkeys((1, 8, 11, 14, 16), 2),
    **dict.fromkeys((2, 17), 3),
    **dict.fromkeys((3, 12), 4),
    6: 6,
    4: 7,
    5: 8,
}
"""Slices by NVML's GPU instance profile number."""

COMPUTE_INSTANCE_SLICES = {0: 1, 7: 1, 1: 2, 2: 3, 3: 4, 6: 6, 4: 7, 8: 7, 5: 8}
"""Slices by NVML's compute instance profile number."""

_PLUS = {7: "me", 8: "me", 15: "me.all", 16: "me.all", 10: "gfx", 11: "gfx", 12: "gfx", 17: "gfx"}
_MINUS = {13: "me", 14: "me"}


def memory_gib(slice_mib: int, gpu_bytes: int) -> int:
    """Memory of a profile in the GiB that its name shows.

    The share of the GPU's memory is rounded up to an eighth, then applied to the whole GiB of
    the GPU, so that a 4864 MiB slice of a 40 GiB GPU is called ``5gb``.
    """
    if gpu_bytes <= 0:
        return 0
    eighths = -(-slice_mib * 2**20 * 8 // gpu_bytes)
    return (eighths * math.ceil(gpu_bytes / 2**30) + 4) // 8


def make_profile(
    gpu_instance_profile: int, compute_slices: int, slice_mib: int, gpu_bytes: int
) -> MigProfile:
    """The profile with that GPU instance profile number."""
    plus, minus = _PLUS.get(gpu_instance_profile), _MINUS.get(gpu_instance_profile)
    return MigProfile(
        compute_slices=compute_slices,
        gpu_slices=GPU_INSTANCE_SLICES[gpu_instance_profile],
        memory_gib=memory_gib(slice_mib, gpu_bytes),
        attributes=(plus,) if plus else (),
        negative_attributes=(minus,) if minus else (),
    )


def is_capable(handle: Any) -> tuple[bool, bool]:
    """Whether the GPU can be cut, and whether it is (the current mode)."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return False, False
    return True, current == pynvml.NVML_DEVICE_MIG_ENABLE


def possible_profiles(handle: Any, gpu_bytes: int) -> tuple[str, ...]:
    """Profiles whose compute instance fills the GPU instance, in NVML's order."""
    names = dict[str, None]()
    found = list(_gpu_instance_profiles(handle))
    gpu_bytes = gpu_bytes or _largest(found)
    for number, info in found:
        slices = GPU_INSTANCE_SLICES[number]
        names[str(make_profile(number, slices, info.memorySizeMB, gpu_bytes))] = None
    return tuple(names)


def read_mig_devices(
    handle: Any, minor: int, gpu_bytes: int, minors: MigMinors, *, needs_uuid: bool = True
) -> Iterator[MigDevice]:
    """The MIG devices of a GPU in the order of their slots; holes are skipped.

    Args:
        handle: of the GPU.
        minor: its minor number.
        gpu_bytes: its memory; 0 if that is not known.
        minors: of the capabilities.
        needs_uuid: whether a device without UUID is an error.

    Raises:
        NvmlError: a device cannot be read.
    """
    profiles = dict[int, int]()
    for slot in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except (pynvml.NVMLError_NotFound, pynvml.NVMLError_InvalidArgument):
            continue
        if not profiles:
            found = list(_gpu_instance_profiles(handle))
            gpu_bytes = gpu_bytes or _largest(found)
            profiles = {info.id: number for number, info in found}
        uuid = _uuid(mig, None if needs_uuid else f"MIG-{minor}-{slot}")
        yield _read_mig_device(handle, mig, slot, uuid, minor, gpu_bytes, profiles, minors)


def _uuid(mig: Any, substitute: str | None) -> str:
    """The UUID of a MIG device; raises NvmlError if there is none, nor a substitute."""
    try:
        return str(pynvml.nvmlDeviceGetUUID(mig))
    except NvmlError:
        if substitute is None:
            raise
        return substitute


def _read_mig_device(
    handle: Any,
    mig: Any,
    slot: int,
    uuid: str,
    minor: int,
    gpu_bytes: int,
    profiles: dict[int, int],
    minors: MigMinors,
) -> MigDevice:
    gi = pynvml.nvmlDeviceGetGpuInstanceId(mig)
    ci = pynvml.nvmlDeviceGetComputeInstanceId(mig)
    raw = pynvml.nvmlDeviceGetAttributes(mig)
    gpu_instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, gi)
    number = profiles.get(pynvml.nvmlGpuInstanceGetInfo(gpu_instance).profileId)
    if number is None:
        raise NvmlError(pynvml.NVML_ERROR_NOT_FOUND)
    slices = _compute_slices(gpu_instance, ci)
    try:
        memory = int(pynvml.nvmlDeviceGetMemoryInfo(mig).total)
    except NvmlError:
        memory = 0
    return MigDevice(
        slot=slot,
        uuid=uuid,
        gpu_instance=gi,
        compute_instance=ci,
        profile=make_profile(number, slices, raw.memorySizeMB, gpu_bytes),
        attributes=_attributes(raw),
        memory_bytes=memory,
        capability_minors=minors.of(minor, gi, ci),
    )


def _attributes(raw: Any) -> MigAttributes:
    return MigAttributes(
        multiprocessors=raw.multiprocessorCount,
        shared_copy_engines=raw.sharedCopyEngineCount,
        shared_decoders=raw.sharedDecoderCount,
        shared_encoders=raw.sharedEncoderCount,
        shared_jpeg=raw.sharedJpegCount,
        shared_ofa=raw.sharedOfaCount,
        gpu_instance_slices=raw.gpuInstanceSliceCount,
        compute_instance_slices=raw.computeInstanceSliceCount,
        memory_mib=raw.memorySizeMB,
    )


def _compute_slices(gpu_instance: Any, ci: int) -> int:
    instance = pynvml.nvmlGpuInstanceGetComputeInstanceById(gpu_instance, ci)
    wanted = pynvml.nvmlComputeInstanceGetInfo(instance).profileId
    for number, slices in COMPUTE_INSTANCE_SLICES.items():
        info = _if_there(
            pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, gpu_instance, number, 0, 1
        )
        if info is not None and info.id == wanted:
            return slices
    raise NvmlError(pynvml.NVML_ERROR_NOT_FOUND)


def _largest(profiles: list[tuple[int, Any]]) -> int:
    """Bytes of the largest profile: about the whole GPU, for one that does not tell its memory."""
    return max((info.memorySizeMB for _, info in profiles), default=0) << 20


def _gpu_instance_profiles(handle: Any) -> Iterator[tuple[int, Any]]:
    for number in sorted(GPU_INSTANCE_SLICES):
        info = _if_there(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number, 1)
        if info is not None:
            yield number, info


def _if_there(query: Callable[..., Any], *args: Any) -> Any:
    try:
        return query(*args)
    except NvmlError as error:
        if error.value in NOT_THERE:
            return None
        raise
