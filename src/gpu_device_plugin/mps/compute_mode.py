"""The compute mode of GPUs: exclusive while MPS has them, so that nothing goes past it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.mps.processes import NotInTime, find_program, run_process
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)

SMI = "nvidia-smi"
SECONDS = 30.0
"""Longest time for one GPU: without persistence mode the driver takes seconds to wake it."""


class ComputeMode(StrEnum):
    """The modes in use, by their names for ``nvidia-smi -c``."""

    DEFAULT = "DEFAULT"
    EXCLUSIVE_PROCESS = "EXCLUSIVE_PROCESS"


class ComputeModeError(Exception):
    """A compute mode could not be set; the text is for a user."""


class ComputeModes(Protocol):
    """What knows the compute modes of the node's GPUs."""

    async def set(self, gpu: str, mode: ComputeMode) -> None:
        """Sets the mode of the GPU with that UUID.

        Raises:
            ComputeModeError: it cannot be set.
        """
        ...

    async def exclusive(self) -> tuple[str, ...]:
        """The UUIDs of the GPUs in exclusive mode; none where they cannot be read."""
        ...


class DriverComputeModes:
    """Sets modes through nvidia-smi, as k8s-device-plugin v0.19.3 does, else through NVML.

    Args:
        smi: the path of nvidia-smi, or its name to be looked up in PATH.
        driver_root: where NVML is looked for; empty: on the library path.
    """

    def __init__(self, smi: str = SMI, driver_root: str = "") -> None:
        self._smi = smi
        self._driver_root = driver_root

    async def set(self, gpu: str, mode: ComputeMode) -> None:
        """Sets the mode of a GPU; raises ComputeModeError."""
        path = find_program(self._smi)
        if path is None:
            await self._set_by_nvml(gpu, mode)
            return
        try:
            outcome = await run_process((path, "-i", gpu, "-c", mode), limit=SECONDS)
        except (OSError, NotInTime) as error:
            raise ComputeModeError(f"compute mode {mode} of {gpu}: {error}") from None
        if outcome.exit_code:
            said = outcome.text or "nothing"
            raise ComputeModeError(
                f"compute mode {mode} of {gpu}: {self._smi} ended with {outcome.exit_code}, "
                f"it says: {said}"
            )

    async def exclusive(self) -> tuple[str, ...]:
        """The GPUs in exclusive mode, as NVML tells it."""
        from gpu_device_plugin.hardware.nvml.compute_mode import (  # noqa: PLC0415 - 3 MB
            NvmlComputeMode,
        )

        try:
            async with asyncio.timeout(SECONDS):
                return await in_thread("nvml", NvmlComputeMode(self._driver_root).exclusive)
        except (HardwareError, TimeoutError):
            return ()

    async def _set_by_nvml(self, gpu: str, mode: ComputeMode) -> None:
        from gpu_device_plugin.hardware.nvml.compute_mode import (  # noqa: PLC0415 - 3 MB
            NvmlComputeMode,
        )

        nvml = NvmlComputeMode(self._driver_root)
        exclusive = mode is ComputeMode.EXCLUSIVE_PROCESS
        try:
            async with asyncio.timeout(SECONDS):
                await in_thread("nvml", lambda: nvml.set(gpu, exclusive=exclusive))
        except HardwareError as error:
            raise ComputeModeError(f"{error} ({self._smi} is not found either)") from None
        except TimeoutError:
            raise ComputeModeError(f"NVML takes more than {SECONDS:g} s over {gpu}") from None


class SimulatedComputeModes:
    """Those of a simulated node: they are only remembered."""

    def __init__(self) -> None:
        self.modes: dict[str, ComputeMode] = {}

    async def set(self, gpu: str, mode: ComputeMode) -> None:
        """Remembers the mode of a GPU."""
        self.modes[gpu] = mode
        log.info("simulated compute mode gpu=%s mode=%s", gpu, mode)

    async def exclusive(self) -> tuple[str, ...]:
        """The GPUs whose mode was set so."""
        wanted = ComputeMode.EXCLUSIVE_PROCESS
        return tuple(gpu for gpu, mode in self.modes.items() if mode is wanted)


async def reset_all(modes: ComputeModes, gpus: Iterable[str]) -> list[str]:
    """Sets GPUs back to the default mode, each whatever becomes of the others.

    Returns:
        What has gone wrong.
    """
    problems = list[str]()
    for gpu in gpus:
        try:
            await modes.set(gpu, ComputeMode.DEFAULT)
        except ComputeModeError as error:
            problems.append(str(error))
    return problems
