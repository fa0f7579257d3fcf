"""Back to health: off by default, and never on hope alone.

A device whose ailment can pass is tried when its GPU has been quiet for long enough: its driver
has to answer for it and, where it can tell, must not want the GPU to be reset. An event that
comes meanwhile begins the wait anew, so that a GPU that fails again and again stays away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.plugin.ailment import Severity
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.telemetry import HealthChanged, Listener, Turn, nobody
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)

SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 60.0
"""Seconds between two looks at the ailments."""


class Recovery:
    """Gives devices back after a quiet period."""

    def __init__(
        self,
        backend: Backend,
        inventory: Inventory,
        boards: Callable[[], Sequence[DeviceBoard]],
        clock: Callable[[], float],
        tell: Listener = nobody,
    ) -> None:
        """Prepares.

        Args:
            backend: asked whether a GPU is well.
            inventory: its GPUs.
            boards: where devices are given back.
            clock: seconds of a clock that nobody sets, as in `Ailment.heard`.
            tell: hears of what is given back.
        """
        self._backend = backend
        self._gpus = {gpu.uuid: gpu for gpu in inventory.gpus}
        self._boards = boards
        self._clock = clock
        self._tell = tell
        self._refused: dict[str, str] = {}

    async def run(self, quiet_seconds: float) -> None:
        """Looks at the ailments again and again until it is cancelled."""
        while True:
            await asyncio.sleep(max(SHORTEST_PAUSE, min(quiet_seconds / 4, LONGEST_PAUSE)))
            try:
                await self.look(quiet_seconds)
            except Exception:
                log.exception("the recovery of devices failed")

    async def look(self, quiet_seconds: float) -> None:
        """Gives back what has been quiet for long enough and is well."""
        for uuid in self._due(quiet_seconds):
            gpu = self._gpus.get(uuid)
            if gpu is None:
                continue
            problem = await in_thread("recovery", partial(self._backend.problem_of, gpu))
            if problem:
                if self._refused.get(uuid) != problem:
                    log.warning("not recovered gpu=%s reason=%r", uuid, problem)
                self._refused[uuid] = problem
                continue
            self._refused.pop(uuid, None)
            back = list[tuple[str, str]]()
            for board in self._boards():
                ready = [d for d in board.ailing(Severity.RECOVERABLE) if d.gpu_uuid == uuid]
                for device in board.mark_healthy(ready):
                    log.info("recovered resource=%s device=%s", board.resource.name, device.id)
                    back.append((board.resource.name, device.id))
            if back:
                self._tell(HealthChanged(Turn.HEALTHY, uuid, "recovered", devices=tuple(back)))

    def _due(self, quiet_seconds: float) -> list[str]:
        """GPUs all of whose ailments can pass and are old enough."""
        due = dict[str, bool]()
        now = self._clock()
        for board in self._boards():
            for device in board.resource.devices:
                ailment = board.ailments.get(device.id)
                if ailment is None:
                    continue
                is_quiet = now - ailment.heard >= quiet_seconds
                ripe = ailment.severity is Severity.RECOVERABLE and is_quiet
                due[device.gpu_uuid] = due.get(device.gpu_uuid, True) and ripe
        return [uuid for uuid, ripe in due.items() if ripe]
