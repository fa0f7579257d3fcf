"""Asks the kubelet again and again who holds what, and keeps its last answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet.podresources import ContainerDevices
from gpu_device_plugin.status.collect import Holders
from gpu_device_plugin.status.holders import make_holders
from gpu_device_plugin.status.model import Pods
from gpu_device_plugin.telemetry import Answered, Call, Happening, Outcome

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0
"""Between two questions. An end of a pod is told by nobody, so that it shows so late."""
SETTLE_SECONDS = 1.0
"""Between an allocation and the question; the kubelet notes it after it has its answer."""
FAILURES_LOGGED = 2
"""Questions in vain after which the log has a line; a kubelet that restarts is back before."""


class PodSource(Protocol):
    """Who is asked: `gpu_device_plugin.kubelet.podresources.PodResourcesClient`."""

    async def list(self) -> Iterable[ContainerDevices]:
        """All containers that hold devices.

        Raises:
            UserError: they cannot be told.
        """
        ...

    def close(self) -> None:
        """Ends the connection."""
        ...


class PodWatcher:
    """Knows who holds what, as of some seconds ago; no question waits for another one.

    Args:
        source: who is asked.
        interval: seconds between two questions.
        settle: seconds between an allocation and the question.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        source: PodSource,
        *,
        interval: float = INTERVAL_SECONDS,
        settle: float = SETTLE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._interval = interval
        self._settle = settle
        self._clock = clock
        self._soon = asyncio.Event()
        self._asking = asyncio.Lock()
        self._holders: Holders | None = None
        self._time = 0.0
        self._problem = ""
        self._failures = 0

    def pods(self) -> tuple[Pods, Holders | None]:
        """What is known, for `gpu_device_plugin.status.reporter.Reporter`.

        After a question in vain it is what was told before, with the problem beside it; None if
        nothing was told yet.
        """
        return Pods(asked=True, problem=self._problem, time=self._time), self._holders

    def hear(self, happening: Happening) -> None:
        """Asks soon after an allocation; a listener of `gpu_device_plugin.telemetry`."""
        match happening:
            case Answered(call=Call.ALLOCATE, outcome=Outcome.OK):
                self.ask_soon()

    def ask_soon(self) -> None:
        """Asks before the interval is over; any number of times comes to one question."""
        self._soon.set()

    async def run(self) -> None:
        """Asks until it is cancelled."""
        try:
            while True:
                await self.ask()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._soon.wait()
                        await asyncio.sleep(self._settle)
        finally:
            self._source.close()

    async def ask(self) -> None:
        """Asks now; what goes wrong is kept, and logged if it lasts."""
        async with self._asking:
            self._soon.clear()
            try:
                containers = await self._source.list()
            except UserError as error:
                self._fail(str(error))
            else:
                self._holders = make_holders(containers)
                self._time = self._clock()
                self._succeed()

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._failures += 1
        if self._failures == FAILURES_LOGGED:
            log.warning("it is not known which pods hold which devices: %s", problem)

    def _succeed(self) -> None:
        if self._failures >= FAILURES_LOGGED:
            log.info("the kubelet tells again which pods hold which devices")
        self._problem, self._failures = "", 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Asks as long as the context lasts; an error in that is none of the program's work."""
        asking = asyncio.create_task(self._run_guarded(), name="pods")
        try:
            yield
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _run_guarded(self) -> None:
        try:
            await self.run()
        except Exception:
            log.exception("the kubelet is not asked any more which pods hold which devices")
