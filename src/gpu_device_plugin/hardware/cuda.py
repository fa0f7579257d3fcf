"""The integrated GPU of a Tegra, through the CUDA driver API (``libcuda.so.1``)."""

from __future__ import annotations

import ctypes
from typing import Any

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.model import Gpu, Inventory, Platform

LIBRARY_NAME = "libcuda.so.1"
_NAME_BYTES = 96
_MAJOR = 75
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR``; the minor number is the next."""


class CudaError(Exception):
    """A function of the driver API failed."""


class CudaDriver:
    """The functions that are needed of the driver API."""

    def __init__(self, library: str = LIBRARY_NAME) -> None:
        """Loads the library and initialises it.

        Raises:
            InitError: the library is missing, or finds no driver or device.
        """
        try:
            self._library: Any = ctypes.CDLL(library)
        except OSError as error:
            raise InitError(
                f"cannot load CUDA: {error}",
                "is this a Tegra system, and the container run by the NVIDIA runtime?",
            ) from None
        try:
            self._call("cuInit", ctypes.c_uint(0))
        except CudaError as error:
            raise InitError(f"cannot initialise CUDA: {error}") from None

    def version(self) -> int:
        """The newest CUDA that the driver supports: 12040 is 12.4."""
        return self._integer("cuDriverGetVersion")

    def count(self) -> int:
        """Number of devices."""
        return self._integer("cuDeviceGetCount")

    def device(self, number: int) -> int:
        """The handle of a device."""
        return self._integer("cuDeviceGet", ctypes.c_int(number))

    def name(self, device: int) -> str:
        """What the device calls itself."""
        buffer = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", buffer, ctypes.c_int(_NAME_BYTES), ctypes.c_int(device))
        return buffer.value.decode("utf-8", "replace")

    def memory_bytes(self, device: int) -> int:
        """Total memory, which an integrated GPU shares with the CPU."""
        size = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), ctypes.c_int(device))
        return size.value

    def compute_capability(self, device: int) -> tuple[int, int]:
        """Major and minor number."""
        major, minor = (
            self._integer("cuDeviceGetAttribute", ctypes.c_int(_MAJOR + n), ctypes.c_int(device))
            for n in (0, 1)
        )
        return major, minor

    def _integer(self, function: str, *arguments: Any) -> int:
        value = ctypes.c_int()
        self._call(function, ctypes.byref(value), *arguments)
        return value.value

    def _call(self, function: str, *arguments: Any) -> None:
        try:
            result = getattr(self._library, function)(*arguments)
        except AttributeError:
            raise CudaError(f"the library has no {function}") from None
        if result:
            raise CudaError(f"{function} gives error {result}")


def read_cuda_inventory(library: str = LIBRARY_NAME) -> Inventory:
    """The devices that CUDA knows; what a device does not tell is left out.

    Raises:
        InitError: CUDA cannot be used, or cannot count its devices.
    """
    driver = CudaDriver(library)
    try:
        gpus = tuple(_read_gpu(driver, number) for number in range(driver.count()))
    except CudaError as error:
        raise InitError(f"CUDA does not tell its devices: {error}") from None
    try:
        version = driver.version()
    except CudaError:
        version = 0
    return Inventory(Platform.TEGRA, gpus, cuda_driver_version=version)


def _read_gpu(driver: CudaDriver, number: int) -> Gpu:
    device = driver.device(number)
    try:
        name = driver.name(device)
    except CudaError:
        name = ""
    try:
        memory = driver.memory_bytes(device)
    except CudaError:
        memory = 0
    try:
        compute: tuple[int, int] | None = driver.compute_capability(device)
    except CudaError:
        compute = None
    return Gpu(
        index=number,
        uuid="",
        minor=number,
        name=name,
        memory_bytes=memory,
        compute_capability=compute,
    )
