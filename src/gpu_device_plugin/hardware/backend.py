"""The seam between hardware and everything above: how a node is read and watched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Protocol

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, Inventory, Links, Platform

log = logging.getLogger(__name__)


class Backend(Protocol):
    """One source of facts about the node's GPUs."""

    @property
    def name(self) -> str:
        """The strategy that it stands for: ``nvml``, ``tegra``, ``simulated``."""
        ...

    def read(self) -> Inventory:
        """Reads the node, anew each time.

        Raises:
            InitError: there is no driver, or it cannot be used.
        """
        ...

    def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:
        """Reads how the GPUs are connected; may take seconds and is called in a thread."""
        ...

    def health_events(self, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:
        """Health events from now on; ends at once where health cannot be watched.

        Closing the iterator ends the watching before it returns.
        """
        ...

    def problem_of(self, gpu: Gpu) -> str:
        """What speaks against giving a GPU back that has been quiet; empty if nothing does.

        Called in a thread, while events are being watched.
        """
        ...

    def is_loadable(self) -> bool:
        """Whether NVML can be loaded (CDI strategies need it)."""
        ...


class NvmlBackend:
    """A discrete-GPU system with NVIDIA's driver, or WSL.

    Args:
        driver_root: the driver root as this process sees it.
        detected: what the node looks like.
    """

    def __init__(self, driver_root: str, detected: Platform | None = None) -> None:
        from gpu_device_plugin.hardware.nvml.library import NvmlLibrary  # noqa: PLC0415 - 3 MB

        self.name = "nvml"
        self.detected = detected
        self._library = NvmlLibrary(driver_root)

    def read(self) -> Inventory:
        """Reads the node through NVML."""
        from gpu_device_plugin.hardware.nvml.read import read_inventory  # noqa: PLC0415 - 3 MB

        with self._library.session():
            return read_inventory(Platform.through_nvml(self.detected), detected=self.detected)

    def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:
        """Reads the links through NVML."""
        from gpu_device_plugin.hardware.nvml.links import read_links  # noqa: PLC0415 - 3 MB

        with self._library.session():
            return read_links(inventory, stopped=stopped)

    async def health_events(self, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:
        """Watches an NVML event set in a thread; WSL has none."""
        if self.detected is Platform.WSL:
            return
        from gpu_device_plugin.hardware.nvml.health import NvmlMonitor  # noqa: PLC0415 - 3 MB

        loop = asyncio.get_running_loop()
        events: asyncio.Queue[HealthEvent | None] = asyncio.Queue()

        def in_loop(call: Callable[[], None]) -> None:
            # A monitor that is left behind may outlive the loop.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(call)

        def emit(event: HealthEvent) -> None:
            in_loop(lambda: events.put_nowait(event))

        ended = asyncio.Event()
        failures = list[Exception]()

        def end(failure: Exception | None) -> None:
            if failure is not None:
                failures.append(failure)
            ended.set()
            events.put_nowait(None)

        monitor = NvmlMonitor(self._library, inventory, emit)
        monitor.start(lambda failure: in_loop(lambda: end(failure)))
        try:
            while (event := await events.get()) is not None:
                yield event
            if failures:
                raise failures[0]
        finally:
            monitor.stop()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await ended.wait()
            except TimeoutError:
                log.warning("the driver still holds the health monitor; leaving it behind")

    def problem_of(self, gpu: Gpu) -> str:
        """Asks NVML for the GPU and for the recovery action that it wants."""
        from gpu_device_plugin.hardware.nvml.recovery import problem_of  # noqa: PLC0415 - 3 MB

        try:
            with self._library.session():
                return problem_of(gpu)
        except InitError as error:
            return str(error)

    def is_loadable(self) -> bool:
        """Whether NVML can be loaded."""
        return self._library.is_loadable()


STOP_SECONDS = 1.5
"""Longest wait for a monitor that is asked to end."""


class TegraBackend:
    """An integrated GPU: one device that always is there and cannot be watched.

    Args:
        driver_root: the driver root as this process sees it.
        detected: what the node looks like.
        needs_nvml: whether an NVML that is there has to work, as MIG profiles are asked for.
    """

    name = "tegra"

    def __init__(
        self, driver_root: str, detected: Platform | None = None, *, needs_nvml: bool = False
    ) -> None:
        self._driver_root = driver_root
        self._detected = detected
        self._needs_nvml = needs_nvml

    def read(self) -> Inventory:
        """What NVML tells, where there is one: the device itself needs no reading.

        Raises:
            InitError: NVML is there and needed, but cannot be used.
        """
        from gpu_device_plugin.hardware.nvml.library import NvmlLibrary  # noqa: PLC0415 - 3 MB
        from gpu_device_plugin.hardware.nvml.read import read_inventory  # noqa: PLC0415 - 3 MB

        library = NvmlLibrary(self._driver_root)
        try:
            with library.session():
                return read_inventory(Platform.TEGRA, detected=self._detected)
        except InitError:
            if self._needs_nvml and library.is_loadable():
                raise
            return Inventory(platform=Platform.TEGRA, detected=self._detected)

    def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:  # noqa: ARG002 - there are none
        """There is one GPU."""
        return Links()

    async def health_events(self, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:  # noqa: ARG002 - as above
        """There are none."""
        nothing: tuple[HealthEvent, ...] = ()
        for event in nothing:
            yield event

    def problem_of(self, gpu: Gpu) -> str:  # noqa: ARG002 - as above
        """Nothing is ever known against it."""
        return ""

    def is_loadable(self) -> bool:
        """Whether NVML can be loaded, as on newer Tegra systems."""
        from gpu_device_plugin.hardware.nvml.library import NvmlLibrary  # noqa: PLC0415 - 3 MB

        return NvmlLibrary(self._driver_root).is_loadable()
