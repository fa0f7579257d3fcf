"""Chooses the backend for this node."""

from __future__ import annotations

import logging

from gpu_device_plugin.hardware.backend import Backend, NvmlBackend, TegraBackend
from gpu_device_plugin.hardware.model import Platform

log = logging.getLogger(__name__)


FLAGS = "--driver-root-ctr-path, the NVIDIA Container Toolkit, or set --device-discovery-strategy"
FILE = "the NVIDIA Container Toolkit, or set flags.deviceDiscoveryStrategy in the configuration"
"""What may help where nothing was detected, with and without flags for it."""


def discover(
    strategy: str, driver_root: str, *, tegra_needs_nvml: bool = False, advice: str = FLAGS
) -> Backend:
    """The backend for a device discovery strategy.

    Args:
        strategy: ``auto`` (or empty), ``nvml`` or ``tegra``.
        driver_root: the driver root as this process sees it.
        tegra_needs_nvml: see `TegraBackend`.
        advice: what to check where nothing is detected, for the log.
    """
    from gpu_device_plugin.hardware.nvml.library import NvmlLibrary  # noqa: PLC0415 - 3 MB
    from gpu_device_plugin.hardware.platform import probe  # noqa: PLC0415 - as above

    probes = probe(NvmlLibrary(driver_root), driver_root)
    platform = probes.platform
    is_auto = strategy in {"", "auto"}
    if strategy == "tegra" or (is_auto and platform is Platform.TEGRA):
        return TegraBackend(driver_root, platform, needs_nvml=tegra_needs_nvml)
    if is_auto and platform is Platform.UNKNOWN:
        log.warning(
            "no GPU platform was detected below %s (%s); trying NVML all the same. "
            "If this node has a GPU: check %s",
            driver_root or "/",
            probes.describe(),
            advice,
        )
    return NvmlBackend(driver_root, platform)
