"""The compute mode of GPUs through NVML: who may use a GPU, one process or all."""

from __future__ import annotations

import pynvml

from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.hardware.nvml.library import NvmlError, NvmlLibrary


class NvmlComputeMode:
    """Reads and sets compute modes."""

    def __init__(self, driver_root: str = "") -> None:
        self._library = NvmlLibrary(driver_root)

    def set(self, uuid: str, *, exclusive: bool) -> None:
        """Lets one process use a GPU, or all.

        Raises:
            InitError: NVML cannot be used.
            HardwareError: the GPU is gone, or we may not change it.
        """
        mode = (
            pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
            if exclusive
            else pynvml.NVML_COMPUTEMODE_DEFAULT
        )
        with self._library.session():
            try:
                pynvml.nvmlDeviceSetComputeMode(pynvml.nvmlDeviceGetHandleByUUID(uuid), mode)
            except NvmlError as error:
                raise HardwareError(
                    f"NVML cannot set the compute mode of {uuid}: {error}"
                ) from None

    def exclusive(self) -> tuple[str, ...]:
        """The UUIDs of the GPUs that only one process may use; unreadable ones are left out.

        Raises:
            InitError: NVML cannot be used.
        """
        found = list[str]()
        with self._library.session():
            for index in range(self._count()):
                try:
                    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                    mode = pynvml.nvmlDeviceGetComputeMode(handle)
                    if mode == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
                        found.append(str(pynvml.nvmlDeviceGetUUID(handle)))
                except NvmlError:
                    continue
        return tuple(found)

    @staticmethod
    def _count() -> int:
        try:
            return int(pynvml.nvmlDeviceGetCount())
        except NvmlError:
            return 0
