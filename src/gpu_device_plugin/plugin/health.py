"""From health events to marks on device boards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import aclosing

from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind, Inventory
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.resources.health import DISABLE_VARIABLE, HealthPolicy, devices_hit

log = logging.getLogger(__name__)

FIRST_LIST_SECONDS = 5.0
"""How long events wait until the kubelet has the first list, so that it sees the change."""
TOLD_SECONDS = 0.05
"""How long an event waits until the kubelet has been told of the one before."""


class HealthWatch:
    """Marks devices on boards as events come; the boards may be exchanged meanwhile."""

    def __init__(self, policy: HealthPolicy) -> None:
        self._policy = policy
        self._boards: tuple[DeviceBoard, ...] = ()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a backend is being watched."""
        return self._task is not None and not self._task.done()

    def show_on(self, boards: Sequence[DeviceBoard]) -> None:
        """Events from now on are shown on these boards."""
        self._boards = tuple(boards)

    def start(self, backend: Backend, inventory: Inventory) -> None:
        """Begins to watch, unless the policy says that nothing counts."""
        if self._policy.is_off:
            log.info("GPU health is not watched, as %s says", DISABLE_VARIABLE)
            return
        self._task = asyncio.create_task(self._watch(backend, inventory), name="health")

    async def stop(self) -> None:
        """Ends the watching; the driver is not in use any more when this returns."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, backend: Backend, inventory: Inventory) -> None:
        try:
            async with aclosing(backend.health_events(inventory)) as events:
                async for event in events:
                    await self._first_lists()
                    if apply_event(event, self._policy, self._boards):
                        # Each change is told by a list of its own to whoever keeps up.
                        await asyncio.gather(*(b.told(TOLD_SECONDS) for b in self._boards))
        except Exception:
            log.exception("the health of the GPUs is not watched any more")

    async def _first_lists(self) -> None:
        try:
            async with asyncio.timeout(FIRST_LIST_SECONDS):
                await asyncio.gather(*(board.first_told() for board in self._boards))
        except TimeoutError:
            return


def apply_event(event: HealthEvent, policy: HealthPolicy, boards: Iterable[DeviceBoard]) -> bool:
    """Marks the devices that one event hits; returns whether any device changed."""
    if event.kind is HealthKind.MONITOR_READY:
        return _end_of_blindness(boards)
    if not policy.counts(event):
        log.info("ignored: XID %s gpu=%s", event.xid, event.uuid)
        return False
    known = changed = False
    for board in boards:
        hit = devices_hit(board.resource.devices, event)
        known = known or bool(hit)
        provisional = event.kind is HealthKind.MONITOR_NOT_STARTED
        for device in board.mark_unhealthy(hit, event.reason, provisional=provisional):
            changed = True
            log.warning(
                "unhealthy resource=%s device=%s reason=%r",
                board.resource.name,
                device.id,
                event.reason,
            )
    if not known:
        log.info("ignored: %s gpu=%s, which is not offered", event.reason, event.uuid)
    return changed


def _end_of_blindness(boards: Iterable[DeviceBoard]) -> bool:
    """Nothing was known against devices that merely were not watched."""
    changed = False
    for board in boards:
        for device in board.clear_provisional():
            changed = True
            log.info("healthy again, since it is watched: device=%s", device.id)
    return changed
