"""Which kind of system this is (go-nvlib, pkg/nvlib/info: property extractor and resolver)."""

from __future__ import annotations

import _ctypes
import os
from dataclasses import dataclass

import pynvml

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.hardware.nvml.library import NvmlError, NvmlLibrary
from gpu_device_plugin.hardware.roots import find_library

INTEGRATED_NAMES = ("(nvgpu)", "NVIDIA Thor")


@dataclass(frozen=True, slots=True)
class Probes:
    """What was found of each platform."""

    has_dxcore: bool
    has_nvml: bool
    has_tegra_files: bool
    has_integrated_gpu: bool

    @property
    def platform(self) -> Platform:
        """The platform that the findings stand for."""
        if self.has_dxcore:
            return Platform.WSL
        if (self.has_tegra_files and not self.has_nvml) or self.has_integrated_gpu:
            return Platform.TEGRA
        return Platform.NVML if self.has_nvml else Platform.UNKNOWN

    def describe(self) -> str:
        """One line for the log."""
        found = {
            "libdxcore.so": self.has_dxcore,
            "libnvidia-ml.so.1": self.has_nvml,
            "Tegra system files": self.has_tegra_files,
            "integrated GPU": self.has_integrated_gpu,
        }
        return ", ".join(f"{what}: {'yes' if there else 'no'}" for what, there in found.items())


def probe(library: NvmlLibrary, driver_root: str) -> Probes:
    """Looks for the traces of each platform below the driver root."""
    return Probes(
        has_dxcore=can_load(find_library(driver_root, "libdxcore.so")),
        has_nvml=library.is_loadable(),
        has_tegra_files=has_tegra_files(driver_root),
        has_integrated_gpu=_has_integrated_gpu(library),
    )


def can_load(path: str) -> bool:
    """Whether a library can be loaded; it is given back at once."""
    try:
        handle = _ctypes.dlopen(path, os.RTLD_LAZY)
    except OSError:
        return False
    _ctypes.dlclose(handle)
    return True


def has_tegra_files(root: str) -> bool:
    """Whether the files are there by which a Tegra system is told."""
    root = root or "/"
    release = os.path.join(root, "etc/nv_tegra_release")
    if os.path.exists(release) and not os.path.isdir(release):
        return True
    try:
        with open(
            os.path.join(root, "sys/devices/soc0/family"), encoding="utf-8", errors="replace"
        ) as file:
            return file.read(64).lower().startswith("tegra")
    except OSError:
        return False


def _has_integrated_gpu(library: NvmlLibrary) -> bool:
    try:
        with library.session():
            for index in range(pynvml.nvmlDeviceGetCount()):
                name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index))
                if any(mark in name for mark in INTEGRATED_NAMES):
                    return True
    except (InitError, NvmlError, UnicodeDecodeError):
        return False
    return False
