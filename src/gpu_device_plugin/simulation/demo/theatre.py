"""What the scenes of the demonstration are played with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.simulation.demo.process import PluginProcess
from gpu_device_plugin.simulation.demo.stage import Picture, Stage, Tone
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import Pod, PodSpec
from gpu_device_plugin.simulation.views import NodeView

LIMIT = 10.0
"""Seconds that anything may take."""


class StoryError(UserError):
    """Something in the story did not come out as it should."""


@dataclass(frozen=True, slots=True)
class Theatre:
    """The node, both programs, and what can be done to them."""

    stage: Stage
    kubelet: SimulatedKubelet
    plugin: PluginProcess
    inventory: Inventory
    config_file: str
    events_file: str
    speed: float
    """How many times faster pauses are; 0 for none."""

    def picture(self) -> Picture:
        """What is to be seen now."""
        return self.stage.picture(self.kubelet.view())

    async def pause(self, seconds: float) -> None:
        """Leaves time to look."""
        if self.speed > 0:
            await asyncio.sleep(seconds / self.speed)

    async def expect(self, what: str, condition: Callable[[NodeView], bool]) -> NodeView:
        """Waits for a state of the node.

        Raises:
            UserError: it does not come, or the plugin has ended.
        """
        waiting = asyncio.create_task(self.kubelet.until(condition, what, LIMIT))
        ended = asyncio.create_task(self.plugin.wait())
        try:
            await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise StoryError(f"{what}: the plugin has ended with code {ended.result()}")
            return waiting.result()
        finally:
            for task in (waiting, ended):
                task.cancel()

    async def expect_log(self, part: str, since: float) -> None:
        """Waits for a line of the plugin's log."""
        if not await self.stage.until_plugin_says(part, since, LIMIT):
            raise StoryError(f"the plugin has not said {part!r} within {LIMIT:g} s")

    async def admit(self, name: str, resource: str, count: int) -> Pod:
        """Runs a pod with one container."""
        return await self.kubelet.admit(PodSpec.of(name, {resource: count}))

    def misbehave(self, line: str, text: str) -> None:
        """Tells the simulated hardware to go wrong."""
        self.stage.happen(text, Tone.BAD)
        with open(self.events_file, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def configure(self, text: str) -> None:
        """Replaces the configuration file in one step, as Kubernetes does."""
        fresh = self.config_file + ".new"
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, self.config_file)


def require(what: str, condition: bool) -> None:
    """Fails the story unless something is so."""
    if not condition:
        raise StoryError(what)
