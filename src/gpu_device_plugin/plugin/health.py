"""From health events to marks on device boards, and back to health where that is allowed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.config.model import XidAction
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, HealthKind, Inventory
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.recovery import Recovery
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.resources.health import DISABLE_VARIABLE, HealthPolicy, devices_hit
from gpu_device_plugin.resources.xids import describe_xid
from gpu_device_plugin.telemetry import HealthChanged, Listener, Turn, nobody

log = logging.getLogger(__name__)

FIRST_LIST_SECONDS = 5.0
"""How long events wait until the kubelet has the first list, so that it sees the change."""
TOLD_SECONDS = 0.05
"""How long an event waits until the kubelet has been told of the one before."""

HAND_OVER_SECONDS = 5.0
"""Longest time for which a new monitor is waited for before the former one ends."""

SILENCE_SECONDS = 60.0
"""How long a driver may take to answer the monitor; to initialise eight GPUs that no persistence
daemon keeps initialised takes it half of that."""

RETRY_SECONDS, MOST_RETRY_SECONDS = 5.0, 60.0
"""Pauses before watching that a limit of the system does not allow is tried again."""

Clock = Callable[[], float]


class HealthWatch:
    """Marks devices on boards as events come; the boards may be exchanged meanwhile."""

    def __init__(
        self,
        clock: Clock = time.time,
        tell: Listener = nobody,
        steady: Clock = time.monotonic,
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._steady = steady
        self._last_sign: float | None = None
        """When the monitor was last heard of; None for one that gives no signs of life."""
        self._policy = HealthPolicy()
        self._boards: tuple[DeviceBoard, ...] = ()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._patient_until = 0.0
        self._has_failed = False
        self._is_blind = False
        self.is_monitoring = False
        """Whether events of the driver are being received."""

    @property
    def state(self) -> WatchState:
        """How far the watching has come."""
        if self._has_failed:
            return WatchState.FAILED
        if not self._tasks:
            return WatchState.OFF
        if self._tasks[0].done():
            return WatchState.SILENT
        if self._last_sign is not None and self._steady() - self._last_sign > SILENCE_SECONDS:
            return WatchState.HELD
        if self.is_monitoring:
            return WatchState.WATCHING
        return WatchState.BLIND if self._is_blind else WatchState.STARTING

    @property
    def is_running(self) -> bool:
        """Whether a backend is being watched."""
        return any(not task.done() for task in self._tasks)

    def show_on(self, boards: Sequence[DeviceBoard], policy: HealthPolicy) -> None:
        """Events from now on are shown on these boards, by this policy."""
        self._boards = tuple(boards)
        self._policy = policy
        self._patient_until = time.monotonic() + FIRST_LIST_SECONDS

    def show_lost(self, gpus: Iterable[Gpu]) -> None:
        """Marks the devices of GPUs that cannot be read any more, and clears those that can."""
        for gpu in gpus:
            known = [
                (board, [d for d in board.ailing(Severity.LOST) if d.gpu_uuid == gpu.uuid])
                for board in self._boards
            ]
            if gpu.lost:
                self._show_lost(gpu, sum(len(devices) for _, devices in known))
                continue
            found = list[tuple[str, str]]()
            for board, devices in known:
                for device in board.mark_healthy(devices):
                    log.info("found again resource=%s device=%s", board.resource.name, device.id)
                    found.append((board.resource.name, device.id))
            if found:
                back = HealthChanged(
                    Turn.HEALTHY, gpu.uuid, "found again", is_lost=True, devices=tuple(found)
                )
                self._tell(back)

    def _show_lost(self, gpu: Gpu, known: int) -> None:
        """Marks the devices of a GPU, unless all of them, so many, are marked already."""
        devices = (device for board in self._boards for device in board.resource.devices)
        if known and known == sum(device.gpu_uuid == gpu.uuid for device in devices):
            return
        if not known:
            log.warning("lost gpu=%s index=%d reason=%r", gpu.uuid, gpu.index, gpu.lost)
        self._apply(HealthEvent(HealthKind.LOST, uuid=gpu.uuid, reason=gpu.lost))

    async def take(self, backend: Backend, inventory: Inventory) -> None:
        """Begins to watch, in place of what is being watched, without a gap between.

        Nothing is watched where the policy says that nothing counts.
        """
        if self._policy.is_off:
            log.info("GPU health is not watched, as %s says", DISABLE_VARIABLE)
            await self.stop()
            return
        self._has_failed = False
        self._last_sign = None
        former, ready = self._tasks, asyncio.Event()
        self._tasks = self._begin(backend, inventory, ready)
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS if former else 0):
                await ready.wait()
        except TimeoutError:
            pass
        finally:
            for task in former:
                task.cancel()
            await asyncio.gather(*former, return_exceptions=True)

    def _begin(
        self, backend: Backend, inventory: Inventory, ready: asyncio.Event
    ) -> tuple[asyncio.Task[None], ...]:
        watch = asyncio.create_task(self._watch(backend, inventory, ready), name="health")
        settings = self._policy.settings.recovery
        if not settings.enabled:
            return (watch,)
        recovery = Recovery(backend, inventory, lambda: self._boards, self._steady, self._tell)
        quiet = settings.quiet_period / 1e9
        return watch, asyncio.create_task(recovery.run(quiet), name="recovery")

    async def stop(self) -> None:
        """Ends the watching; the driver is not in use any more when this returns."""
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.is_monitoring = False

    async def _watch(self, backend: Backend, inventory: Inventory, ready: asyncio.Event) -> None:
        pauses = Backoff(RETRY_SECONDS, MOST_RETRY_SECONDS)
        try:
            while (error := await self._follow(backend, inventory, ready)) is not None:
                pause = pauses.next()
                log.error("GPU health is not watched: %s; next attempt in %g s", error, pause)
                reason = f"not watched: {error}"
                self._apply(HealthEvent(HealthKind.MONITOR_NOT_STARTED, reason=reason))
                ready.set()
                await asyncio.sleep(pause)
        except Exception:
            self._has_failed = True
            log.exception("the health of the GPUs is not watched any more")
        finally:
            ready.set()

    async def _follow(
        self, backend: Backend, inventory: Inventory, ready: asyncio.Event
    ) -> OSError | None:
        """Shows what happens until there are no events any more; why that is, if by a limit."""
        try:
            async with aclosing(backend.health_events(inventory)) as events:
                async for event in events:
                    if event.kind is HealthKind.MONITOR_ALIVE:
                        self._last_sign = self._steady()
                        continue
                    ready.set()
                    await self._first_lists()
                    if self._apply(event):
                        # Each change is told by a list of its own to whoever keeps up.
                        await asyncio.gather(*(b.told(TOLD_SECONDS) for b in self._boards))
        except OSError as error:  # of threads, memory, open files
            return error
        return None

    async def _first_lists(self) -> None:
        patience = self._patient_until - time.monotonic()
        if patience <= 0:
            return
        try:
            async with asyncio.timeout(patience):
                await asyncio.gather(*(board.first_told() for board in self._boards))
        except TimeoutError:
            return

    def _apply(self, event: HealthEvent) -> bool:
        if event.kind is HealthKind.MONITOR_READY:
            if not self.is_monitoring:
                log.info("GPU health is being watched")
            self.is_monitoring, self._is_blind = True, False
        elif event.kind in {HealthKind.MONITOR_LOST, HealthKind.MONITOR_NOT_STARTED}:
            self.is_monitoring, self._is_blind = False, True
        return apply_event(event, self._policy, self._boards, self._clock(), self._tell)


def apply_event(
    event: HealthEvent,
    policy: HealthPolicy,
    boards: Iterable[DeviceBoard],
    now: float,
    tell: Listener = nobody,
) -> bool:
    """Marks the devices that one event hits; returns whether any device changed.

    Args:
        event: what has happened.
        policy: what is done about it.
        boards: where devices are marked.
        now: seconds since 1970.
        tell: hears what has come of it.
    """
    if event.kind is HealthKind.MONITOR_READY:
        return _end_of_blindness(boards, Severity.PROVISIONAL, tell)
    if event.kind is HealthKind.MONITORABLE:
        return _end_of_blindness(boards, Severity.UNWATCHABLE, tell, event.uuid)
    meaning = event.reason if event.xid is None else describe_xid(event.xid)
    turn, devices = _act(event, policy, list(boards), now, meaning)
    tell(
        HealthChanged(
            turn,
            gpu_uuid=event.uuid or "",
            reason=event.reason,
            meaning=meaning,
            xid=event.xid,
            is_lost=event.kind is HealthKind.LOST,
            devices=tuple(devices),
        )
    )
    return bool(devices)


def _act(
    event: HealthEvent,
    policy: HealthPolicy,
    boards: Sequence[DeviceBoard],
    now: float,
    meaning: str,
) -> tuple[Turn, list[tuple[str, str]]]:
    """Does what the policy says; returns what that was, and the devices that have changed."""
    action = policy.action_on(event)
    if action is XidAction.IGNORE:
        log.info("ignored: %s gpu=%s", meaning, event.uuid)
        return Turn.IGNORED, []
    hits = [(board, devices_hit(board.resource.devices, event)) for board in boards]
    if not any(hit for _, hit in hits):
        log.info("ignored, as the GPU is not offered: %s gpu=%s", meaning, event.uuid)
        return Turn.IGNORED, []
    if action is XidAction.WARN:
        log.warning("not acted on: %s gpu=%s", meaning, event.uuid)
        return Turn.WARNED, []
    ailment = Ailment(event.reason, _severity(event, action), first=now, last=now)
    changed = list[tuple[str, str]]()
    for board, hit in hits:
        for device in board.mark_unhealthy(hit, ailment):
            changed.append((board.resource.name, device.id))
            log.warning(
                "unhealthy resource=%s device=%s reason=%r meaning=%r",
                *(board.resource.name, device.id, event.reason, meaning),
            )
    return Turn.UNHEALTHY, changed


def _severity(event: HealthEvent, action: XidAction) -> Severity:
    if event.kind is HealthKind.MONITOR_NOT_STARTED:
        return Severity.PROVISIONAL
    if event.kind is HealthKind.LOST:
        return Severity.LOST
    if event.kind is HealthKind.UNMONITORABLE:
        return Severity.UNWATCHABLE
    if action is XidAction.UNHEALTHY_UNTIL_RESET:
        return Severity.UNTIL_RESET
    return Severity.RECOVERABLE


def _end_of_blindness(
    boards: Iterable[DeviceBoard], severity: Severity, tell: Listener, uuid: str | None = None
) -> bool:
    """Nothing was known against devices that merely were not watched."""
    back = list[tuple[str, str]]()
    for board in boards:
        devices = [d for d in board.ailing(severity) if uuid in {None, d.gpu_uuid}]
        for device in board.mark_healthy(devices):
            back.append((board.resource.name, device.id))
            log.info(
                "healthy again, since it is watched resource=%s device=%s",
                *(board.resource.name, device.id),
            )
    if back:
        tell(HealthChanged(Turn.HEALTHY, uuid or "", "watched", devices=tuple(back)))
    return bool(back)
