"""What goes on beside serving: watching health, learning links, looking for changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.health import HealthWatch
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.telemetry import Listener, nobody
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)

INIT_RETRY_SECONDS = 30.0
"""Pause before a driver that could not be used is tried again."""

PLACE_RETRY_SECONDS = 5.0
"""Pause before a place that could not be written is looked at again, for the first time."""
LONGEST_PLACE_SECONDS = 30.0

FAILURES = (InitError, OSError)
"""How reading the hardware may fail for now: the driver, or a limit of files or threads."""

Work = Callable[[], Coroutine[object, object, None]]
"""Called as soon as its task begins, so that one that is ended before leaves nothing behind."""


class Companions:
    """Background tasks of one node; they are exchanged with it, health excepted.

    Args:
        request_reload: called when everything has to be read anew.
        adapt_to: called with an inventory that a rescan has found changed.
        rescan_seconds: pause between rescans; 0 for none but those that are asked for.
        tell: hears what happens.
    """

    def __init__(
        self,
        request_reload: Callable[[], None],
        adapt_to: Callable[[Inventory], None],
        rescan_seconds: float,
        tell: Listener = nobody,
    ) -> None:
        self.health = HealthWatch(tell=tell)
        self._request_reload = request_reload
        self._adapt_to = adapt_to
        self._rescan_seconds = rescan_seconds or None
        self._look = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._reload_is_over: Callable[[], bool] | None = None
        self._node_is_over: Callable[[], bool] | None = None
        self._place: asyncio.Task[None] | None = None
        self._place_pauses = Backoff(PLACE_RETRY_SECONDS, LONGEST_PLACE_SECONDS)
        self._place_pause = self._place_pauses.next()
        """Before the next look; longer after each one, also if another reload was in vain."""

    def start(
        self,
        node: Node,
        boards: Sequence[DeviceBoard],
        preference: LinkedGpus,
        policy: HealthPolicy,
    ) -> None:
        """Begins all that a node needs."""
        self.health.show_on(boards, policy)
        self._node_is_over = node.problem_is_over
        self._look_at_place()
        inventory = node.inventory
        if inventory is None:
            self._begin("driver", lambda: self._await_driver(node))
            self._begin("health", self.health.stop)
            return
        self.health.show_lost(node.gpus)
        self._begin("rescan", lambda: self._rescan(node, inventory))
        if not boards:
            self._begin("health", self.health.stop)
            return
        self._begin("links", lambda: _learn_links(node, inventory, preference))
        self._begin("health", lambda: self.health.take(node.backend, inventory))

    def rescan(self) -> None:
        """Lets the hardware be looked at now."""
        self._look.set()

    def await_place(self, is_over: Callable[[], bool] | None) -> None:
        """Says what the last reload waits for: it is asked for again once files can be written.

        That is waited for with every node that is begun from now on, until another call.

        Args:
            is_over: whether they can be, which may block; None if it does not wait.
        """
        self._reload_is_over = is_over
        self._look_at_place()

    async def stop(self) -> None:
        """Ends all tasks but the watching of health, which the next node takes over."""
        tasks, self._tasks, self._place = self._tasks, [], None
        self._node_is_over = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, name: str, work: Work) -> asyncio.Task[None]:
        task = asyncio.create_task(_guarded(name, work), name=name)
        self._tasks.append(task)
        return task

    def _look_at_place(self) -> None:
        """Waits for the places of the last reload and of the node, if any, from the start."""
        if self._place is not None:
            self._place.cancel()
            self._tasks.remove(self._place)
            self._place = None
        awaited = [each for each in (self._reload_is_over, self._node_is_over) if each is not None]
        if awaited:
            self._place = self._begin("place", lambda: self._await_place(awaited))
        else:
            self._place_pauses.reset()
            self._place_pause = self._place_pauses.next()

    async def _await_place(self, awaited: Sequence[Callable[[], bool]]) -> None:
        while True:
            await asyncio.sleep(self._place_pause)
            self._place_pause = self._place_pauses.next()
            with suppress(OSError):  # no thread can be started
                if await in_thread("place", lambda: any(is_over() for is_over in awaited)):
                    break
        log.info("files that could not be written can be written now")
        self._request_reload()

    async def _await_driver(self, node: Node) -> None:
        """Asks for a reload once the driver can be used."""
        while True:
            await asyncio.sleep(INIT_RETRY_SECONDS)
            try:
                await in_thread("driver", node.backend.read)
            except FAILURES as error:
                log.debug("still waiting for the driver: %s", error)
            else:
                log.info("the driver can be used now")
                self._request_reload()
                return

    async def _rescan(self, node: Node, inventory: Inventory) -> None:
        """Looks for changed hardware again and again.

        The health monitor goes on meanwhile. NVML tells of MIG devices and lost GPUs also while
        somebody uses it; whole GPUs that are added are seen after a reload only.
        """
        problem = ""
        while True:
            await self._until_rescan()
            try:
                now = (await in_thread("rescan", node.backend.read)).keeping_lost(inventory)
            except FAILURES as error:
                if str(error) != problem:
                    log.warning("the hardware cannot be read anew: %s", error)
                problem, now = str(error), inventory
            if now != inventory:
                self._adapt_to(now)
                return

    async def _until_rescan(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rescan_seconds):
                await self._look.wait()
        self._look.clear()


async def _learn_links(node: Node, inventory: Inventory, preference: LinkedGpus) -> None:
    """Reads the links between GPUs beside everything else."""
    stopped = asyncio.Event()
    try:
        links = await in_thread("links", lambda: node.backend.read_links(inventory, stopped.is_set))
    except FAILURES as error:
        links = Links(problems=(str(error),))
    finally:
        stopped.set()
    preference.set_links(links)
    await preference.prepare()


async def _guarded(name: str, work: Work) -> None:
    """Lets nothing end a background task unnoticed."""
    try:
        await work()
    except Exception:
        log.exception("the task %s failed", name)
