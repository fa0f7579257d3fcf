"""What NVML tells of one GPU for whoever looks for what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from gpu_device_plugin.hardware.nvml.facts import NvmlGpu
from gpu_device_plugin.hardware.nvml.library import NvmlError
from gpu_device_plugin.hardware.nvml.read import bus_id_of


def read_gpu(index: int, tell: Callable[[str], None]) -> NvmlGpu:
    """Asks for everything; NVML must be initialised."""
    tell(f"the handle of GPU {index}")
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
        name = str(pynvml.nvmlDeviceGetName(handle))
    except (NvmlError, UnicodeDecodeError) as error:
        return NvmlGpu(index, error=str(error))
    tell(f"the state of GPU {index}")
    info = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    ecc = _pair(_ask(pynvml.nvmlDeviceGetEccMode, handle))
    mig = _pair(_ask(pynvml.nvmlDeviceGetMigMode, handle))
    remapped = _ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    devices, problem = _read_mig(handle) if mig[0] else (None, "")
    return NvmlGpu(
        index=index,
        uuid=uuid,
        name=name,
        bus_id="" if info is None else bus_id_of(info),
        persistence=_flag(_ask(pynvml.nvmlDeviceGetPersistenceMode, handle)),
        compute_mode=_ask(pynvml.nvmlDeviceGetComputeMode, handle),
        ecc_current=ecc[0],
        ecc_pending=ecc[1],
        mig_current=mig[0],
        mig_pending=mig[1],
        mig_devices=devices,
        mig_error=problem,
        remap_pending=None if remapped is None else bool(remapped[2]),
        remap_failed=None if remapped is None else bool(remapped[3]),
        retired_pending=_flag(_ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)),
        recovery_action=_recovery_action(handle),
        link_width=_ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        link_width_most=_ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
    )


def _read_mig(handle: Any) -> tuple[int | None, str]:
    """How many MIG devices there are, and why that cannot be told."""
    found = 0
    try:
        for slot in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
                pynvml.nvmlDeviceGetUUID(device)
            except pynvml.NVMLError_NotFound:
                continue
            found += 1
    except NvmlError as error:
        return None, str(error)
    return found, ""


def _recovery_action(handle: Any) -> int | None:
    """None if the driver is older than the question."""
    fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    values = _ask(pynvml.nvmlDeviceGetFieldValues, handle, fields)
    if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(values[0].value.uiVal)


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _pair(value: Any) -> tuple[bool | None, bool | None]:
    return (None, None) if value is None else (bool(value[0]), bool(value[1]))


def _ask(query: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; None where the GPU or the driver has none."""
    try:
        return query(*arguments)
    except NvmlError:
        return None
