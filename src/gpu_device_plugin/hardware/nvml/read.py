"""Reads the GPUs of a node through NVML into an inventory."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pynvml

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.mig_minors import MigMinors, read_mig_minors
from gpu_device_plugin.hardware.model import (
    Gpu,
    Inventory,
    Platform,
    UnreadableGpu,
    sysfs_address,
)
from gpu_device_plugin.hardware.nvml.library import NvmlError
from gpu_device_plugin.hardware.nvml.mig import is_capable, possible_profiles, read_mig_devices

log = logging.getLogger(__name__)

DISPLAY_ONLY = {"DGX Display", "NVIDIA DGX Display"}
"""Products that drive a monitor and take no compute work (go-nvlib's default filter)."""

MIG_PERMISSION_HINT = (
    "MIG monitoring is not permitted: set NVIDIA_MIG_MONITOR_DEVICES=all for the container, "
    "or give it the capability mig/monitor"
)


def read_inventory(
    platform: Platform,
    sysfs: str = "/sys",
    *,
    detected: Platform | None = None,
    needs_identity: bool = True,
) -> Inventory:
    """Reads everything; NVML must be initialised.

    A GPU that cannot be read is listed as unreadable and does not keep the others away.

    Args:
        platform: what the node is taken for.
        sysfs: where the kernel tells of PCI devices.
        detected: what it looks like.
        needs_identity: whether a GPU or MIG device is of no use without UUID, minor number and
            name, as nothing can be handed out of it.

    Raises:
        InitError: NVML cannot even count the GPUs.
    """
    try:
        count = pynvml.nvmlDeviceGetCount()
    except NvmlError as error:
        raise InitError(f"NVML cannot count the GPUs: {error}") from None
    minors = read_mig_minors()
    gpus, unreadable = list[Gpu](), list[UnreadableGpu]()
    for index in range(count):
        try:
            gpu = _read_gpu(index, minors, sysfs, platform, needs_identity=needs_identity)
        except _Unreadable as error:
            unreadable.append(UnreadableGpu(index, str(error)))
            continue
        if gpu is not None:
            gpus.append(gpu)
    return Inventory(
        platform=platform,
        gpus=tuple(gpus),
        unreadable=tuple(unreadable),
        driver_version=_or_default(pynvml.nvmlSystemGetDriverVersion, default=""),
        cuda_driver_version=_or_default(pynvml.nvmlSystemGetCudaDriverVersion, default=0),
        detected=detected,
    )


def _read_gpu(
    index: int, minors: MigMinors, sysfs: str, platform: Platform, *, needs_identity: bool
) -> Gpu | None:
    handle = _needed("handle", pynvml.nvmlDeviceGetHandleByIndex, index)
    name = _name(handle, is_needed=needs_identity)
    if name in DISPLAY_ONLY:
        return None
    # On WSL one device stands for all GPUs.
    needs_uuid = needs_identity and platform is not Platform.WSL
    uuid, minor = _identity(handle, index, is_needed=needs_uuid)
    what = f"of GPU {index}"
    memory = _or_default(
        pynvml.nvmlDeviceGetMemoryInfo, handle, default=None, what=f"memory {what}"
    )
    total = 0 if memory is None else int(memory.total)
    info = _or_default(
        pynvml.nvmlDeviceGetPciInfo, handle, default=None, what=f"PCI address {what}"
    )
    bus_id = "" if info is None else bus_id_of(info)
    gpu = Gpu(
        index=index,
        uuid=uuid,
        minor=minor,
        name=name,
        memory_bytes=total,
        compute_capability=_or_default(
            pynvml.nvmlDeviceGetCudaComputeCapability,
            handle,
            default=None,
            what=f"compute capability {what}",
        ),
        pci_bus_id=bus_id,
        pci_device_id=0 if info is None else int(info.pciDeviceId),
        numa_node=read_numa_node(bus_id, sysfs),
        brand=_or_default(pynvml.nvmlDeviceGetBrand, handle, default=0),
        coherent=_is_coherent(handle),
    )
    return _with_mig(gpu, handle, minors, needs_uuid=needs_uuid)


def _name(handle: Any, *, is_needed: bool) -> str:
    """The name; empty if there is none and it is not needed."""
    try:
        return str(_needed("name", pynvml.nvmlDeviceGetName, handle))
    except _Unreadable:
        if is_needed:
            raise
        return ""


def _identity(handle: Any, index: int, *, is_needed: bool) -> tuple[str, int]:
    """UUID and minor number, or something in their place if they are not needed."""
    if not is_needed:
        uuid = _or_default(pynvml.nvmlDeviceGetUUID, handle, default=f"GPU-{index}")
        return uuid, _or_default(pynvml.nvmlDeviceGetMinorNumber, handle, default=index)
    uuid = _needed("UUID", pynvml.nvmlDeviceGetUUID, handle)
    return uuid, _needed("minor number", pynvml.nvmlDeviceGetMinorNumber, handle)


class _Unreadable(Exception):
    """What of a GPU could not be asked, and why."""


def _needed(what: str, query: Callable[..., Any], *args: Any) -> Any:
    """Asks what a GPU cannot be offered without."""
    try:
        return query(*args)
    except (NvmlError, UnicodeDecodeError) as error:
        raise _Unreadable(f"NVML does not tell its {what}: {error}") from None


def bus_id_of(info: Any) -> str:
    """The address in NVML's PCI information, e.g. ``00000000:3B:00.0``."""
    raw = info.busId
    return raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw)


def _with_mig(gpu: Gpu, handle: Any, minors: MigMinors, *, needs_uuid: bool) -> Gpu:
    """The GPU with what NVML tells of MIG: its mode, its devices, the profiles it can have."""
    try:
        capable, enabled = is_capable(handle)
    except NvmlError as error:
        return replace(gpu, mig_problem=_why(error))
    if not capable:
        return gpu
    gpu = replace(gpu, mig_capable=True, mig_enabled=enabled)
    total = gpu.memory_bytes
    # What a GPU might be cut into matters less than what it is cut into.
    try:
        gpu = replace(gpu, mig_profiles=possible_profiles(handle, total))
    except NvmlError as error:
        gpu = replace(gpu, mig_profiles_problem=_why(error))
    try:
        devices = read_mig_devices(handle, gpu.minor, total, minors, needs_uuid=needs_uuid)
        return replace(gpu, mig_devices=tuple(devices))
    except NvmlError as error:
        return replace(gpu, mig_problem=_why(error))


def _why(error: NvmlError) -> str:
    is_refusal = isinstance(error, pynvml.NVMLError_NoPermission)
    return f"{error} ({MIG_PERMISSION_HINT})" if is_refusal else str(error)


def read_numa_node(bus_id: str, sysfs: str = "/sys") -> int | None:
    """The NUMA node of a PCI device, None where there is none or none can be told."""
    address = sysfs_address(bus_id)
    if not address:
        return None
    path = os.path.join(sysfs, "bus/pci/devices", address, "numa_node")
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read().strip()
    except OSError:
        return None
    try:
        node = int(text)
    except ValueError:
        log.warning("%s holds %r, not a number: no topology for that GPU", path, text)
        return None
    return node if node >= 0 else None


def _is_coherent(handle: Any) -> bool | None:
    """Whether the GPU shares the CPU's page tables; drivers before 580 have no such question."""
    try:
        mode = pynvml.nvmlDeviceGetAddressingMode(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return False
    except NvmlError:
        return None
    return bool(mode == pynvml.NVML_DEVICE_ADDRESSING_MODE_ATS)


def _or_default(query: Any, *args: Any, default: Any, what: str = "") -> Any:
    try:
        return query(*args)
    except NvmlError as error:
        if what:
            log.warning("NVML does not tell the %s: %s", what, error)
        return default
