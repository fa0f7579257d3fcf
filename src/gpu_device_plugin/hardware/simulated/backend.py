"""A simulated node as a hardware backend: a profile, and what happens to it meanwhile.

For clusters without GPUs, for demonstrations and for tests. What goes wrong is told through a
file (see `simulated.events`) named by ``GPU_NODE_SIMULATE_EVENTS`` or by the profile, or by
calling the methods of a `SimulatedNode`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, Inventory, Links, Platform
from gpu_device_plugin.hardware.simulated.events import ControlFile, parse_line
from gpu_device_plugin.hardware.simulated.node import SimulatedNode
from gpu_device_plugin.hardware.simulated.profile import load_profile
from gpu_device_plugin.hardware.simulated.yaml import one_line

log = logging.getLogger(__name__)

EVENTS_VARIABLE = "GPU_NODE_SIMULATE_EVENTS"
POLL_SECONDS = 0.2
"""How often the file is looked at while health is watched."""


class SimulatedBackend:
    """Reads and watches a simulated node."""

    name = "simulated"

    def __init__(self, node: SimulatedNode, events_file: str = "") -> None:
        self.node = node
        self._control = ControlFile(events_file) if events_file else None
        self._lock = threading.Lock()

    @classmethod
    def from_profile(cls, name_or_path: str) -> SimulatedBackend:
        """The node that a profile describes.

        Args:
            name_or_path: name of a built-in profile, or path of a YAML file.

        Raises:
            ConfigError: there is no such profile, or it is wrong.
        """
        profile = load_profile(name_or_path)
        events_file = os.environ.get(EVENTS_VARIABLE, "") or profile.events_file
        return cls(SimulatedNode(profile), events_file)

    def read(self) -> Inventory:
        """The node as it is now.

        Raises:
            InitError: it was told that its driver cannot be used.
        """
        self._follow()
        return self.node.inventory()

    def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:  # noqa: ARG002 - nothing takes long
        """The links between the GPUs that are there."""
        there = {gpu.index for gpu in inventory.gpus}
        links = self.node.profile.links
        return Links(
            {pair: level for pair, level in links.ancestors.items() if there.issuperset(pair)},
            {pair: count for pair, count in links.nvlinks.items() if there.issuperset(pair)},
        )

    async def health_events(self, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:
        """Health events from now on; what happened before is known to whoever has read the node.

        There are none on platforms whose driver reports none.
        """
        if self.node.profile.platform is not Platform.NVML:
            return
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[HealthEvent] = asyncio.Queue()

        def emit(event: HealthEvent) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        with self.node.watched(inventory, emit):
            while True:
                try:
                    async with asyncio.timeout(POLL_SECONDS if self._control else None):
                        event = await events.get()
                except TimeoutError:
                    self._follow()
                    continue
                yield event

    def problem_of(self, gpu: Gpu) -> str:
        """Whether it is lost."""
        self._follow()
        return "it has fallen off the bus" if self.node.is_lost(gpu) else ""

    def is_loadable(self) -> bool:
        """Whether there is an NVML, as CDI strategies ask."""
        return self.node.profile.platform is not Platform.TEGRA

    def _follow(self) -> None:
        """Does what the control file has been told since the last look."""
        control = self._control
        if control is None:
            return
        with self._lock:
            for number, line in control.new_lines():
                try:
                    instruction = parse_line(line)
                    if instruction is not None:
                        self.node.apply(instruction)
                except ConfigError as error:
                    log.warning("%s:%d: %s; ignored", one_line(control.path), number, error)
