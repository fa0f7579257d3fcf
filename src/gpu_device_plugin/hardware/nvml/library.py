"""NVIDIA's management library (NVML): loading it and holding it initialised."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pynvml

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.roots import find_library

LIBRARY_NAME = "libnvidia-ml.so.1"

NvmlError = pynvml.NVMLError
NOT_THERE = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
)
"""What NVML answers for a link or an instance profile that a GPU does not have."""


class NvmlLibrary:
    """The library below one driver root.

    NVML counts its initialisations, so that sessions may nest and overlap between threads; it
    looks at the hardware anew at the first session after the last one has ended.
    """

    def __init__(self, driver_root: str) -> None:
        self.path = find_library(driver_root, LIBRARY_NAME)
        self._has_root = bool(driver_root)

    def load(self) -> None:
        """Loads the library; raises InitError if that is impossible."""
        try:
            # Symbols stay lazy and global, as the driver's own libraries expect.
            pynvml.nvmlLib = ctypes.CDLL(self.path, mode=os.RTLD_LAZY | os.RTLD_GLOBAL)
        except OSError as error:
            # Without a root none can be wrong.
            root = ", and --driver-root-ctr-path right" if self._has_root else ""
            raise InitError(
                f"cannot load NVML: {error}",
                "is the NVIDIA driver installed, and the container run by the NVIDIA runtime "
                f"(NVIDIA Container Toolkit){root}?",
            ) from None

    def is_loadable(self) -> bool:
        """Whether the library can be loaded at all."""
        try:
            self.load()
        except InitError:
            return False
        return True

    @contextmanager
    def session(self) -> Iterator[None]:
        """NVML initialised for the duration of a block.

        Raises:
            InitError: the library is missing, or no driver is loaded, or access is denied.
        """
        self.load()
        try:
            initialise()
        except NvmlError as error:
            raise InitError(
                f"cannot initialise NVML: {error}",
                "nvidia-smi on the node shows the same if the driver is at fault",
            ) from None
        try:
            yield
        finally:
            shutdown()


def initialise() -> None:
    """Initialises the library that was loaded last; raises NvmlError."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_FunctionNotFound:  # drivers older than 375
        code = pynvml.nvmlLib.nvmlInit_v2()
        if code != pynvml.NVML_SUCCESS:
            raise NvmlError(code) from None


def shutdown() -> None:
    """Gives one initialisation back; a failure to do so leaves nothing to be done."""
    try:
        pynvml.nvmlShutdown()
    except NvmlError:
        return
