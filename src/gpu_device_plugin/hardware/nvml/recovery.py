"""Whether a GPU that had an error is well again, as far as NVML can tell."""

from __future__ import annotations

import pynvml

from gpu_device_plugin.hardware.model import Gpu
from gpu_device_plugin.hardware.nvml.library import NvmlError

ACTIONS = {
    1: "a reset of the GPU",
    2: "a reboot of the node",
    3: "its peers to be drained",
    4: "to be drained and reset",
    5: "its IMEX domain to be recovered",
    6: "a reset of its bus",
    7: "a reboot of the system",
}
"""What NVML says that a GPU needs (nvmlDeviceGpuRecoveryAction_t)."""


def problem_of(gpu: Gpu) -> str:
    """Why the GPU cannot be given back; empty if nothing is known against it."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
        pynvml.nvmlDeviceGetPciInfo(handle)
    except pynvml.NVMLError_NotSupported:
        pass
    except NvmlError as error:
        return f"it does not answer: {error}"
    action = _recovery_action(gpu)
    if not action:
        return ""
    return f"it needs {ACTIONS.get(action, f'the recovery action {action}')}"


def _recovery_action(gpu: Gpu) -> int:
    """The action that NVML asks for; 0 if there is none or the driver does not tell."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        (value,) = pynvml.nvmlDeviceGetFieldValues(
            handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        )
    except NvmlError:
        return 0
    return int(value.value.uiVal) if value.nvmlReturn == pynvml.NVML_SUCCESS else 0
