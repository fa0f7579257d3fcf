"""The NVLink fabric of multi-node machines, as NVML tells it (GB200 NVL72 and the like)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import pynvml

from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.hardware.nvml.library import NvmlError


@dataclass(frozen=True, slots=True)
class Fabric:
    """What a GPU that is attached to a fabric is part of."""

    cluster: str
    """UUID, as 8-4-4-4-12 hexadecimal digits."""
    clique: int


@dataclass(frozen=True, slots=True)
class Fabrics:
    """The fabrics of all GPUs of a node."""

    by_gpu: dict[int, Fabric]
    """By NVML index; GPUs that are not attached are absent."""
    problems: tuple[str, ...] = ()


def read_fabrics(inventory: Inventory) -> Fabrics:
    """Asks for the fabric of every GPU; NVML must be initialised."""
    found, problems = dict[int, Fabric](), list[str]()
    for gpu in inventory.gpus:
        try:
            fabric = _read(pynvml.nvmlDeviceGetHandleByIndex(gpu.index))
        except NvmlError as error:
            problems.append(f"NVML does not tell the fabric of GPU {gpu.index}: {error}")
            continue
        if fabric is not None:
            found[gpu.index] = fabric
    return Fabrics(found, tuple(problems))


def _read(handle: Any) -> Fabric | None:
    info = _ask(handle)
    if info is None:
        return None
    cluster = uuid.UUID(bytes=bytes(byte & 0xFF for byte in info.clusterUuid))
    is_attached = (
        info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
        and info.status == pynvml.NVML_SUCCESS
        and cluster.int
    )
    return Fabric(str(cluster), int(info.cliqueId)) if is_attached else None


def _ask(handle: Any) -> Any:
    """The answer of the query that this driver has: newer ones may lack the first form."""
    queries: tuple[tuple[Callable[..., Any], Callable[[], Any]], ...] = (
        (pynvml.nvmlDeviceGetGpuFabricInfo, pynvml.c_nvmlGpuFabricInfo_t),
        (pynvml.nvmlDeviceGetGpuFabricInfoV, pynvml.c_nvmlGpuFabricInfoV_t),
    )
    for query, make in queries:
        info = make()
        try:
            query(handle, byref(info))
        except pynvml.NVMLError_FunctionNotFound:
            continue
        except pynvml.NVMLError_NotSupported:
            return None
        return info
    return None
