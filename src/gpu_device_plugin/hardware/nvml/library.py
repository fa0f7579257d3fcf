"""NVIDIA's management library (NVML): loading it and holding it initialised."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pynvml

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.nvml.older import Library
from gpu_device_plugin.hardware.roots import find_library

LIBRARY_NAME = "libnvidia-ml.so.1"

NvmlError = pynvml.NVMLError
NOT_THERE = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
)
"""What NVML answers for a link or an instance profile that a GPU, or the driver, does not have."""


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
            pynvml.nvmlLib = Library(self.path, mode=os.RTLD_LAZY | os.RTLD_GLOBAL)
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
            pynvml.nvmlInit()
        except NvmlError as error:
            raise InitError(
                f"cannot initialise NVML: {error}",
                "nvidia-smi on the node shows the same if the driver is at fault",
            ) from None
        try:
            yield
        finally:
            shutdown()


def shutdown() -> None:
    """Gives one initialisation back; a failure to do so leaves nothing to be done."""
    try:
        pynvml.nvmlShutdown()
    except NvmlError:
        return
