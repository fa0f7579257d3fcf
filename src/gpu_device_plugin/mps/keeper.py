"""Keeps one daemon alive: started, watched, and started again with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from gpu_device_plugin.mps.daemon import MpsDaemon, StartFailed, Surroundings
from gpu_device_plugin.mps.plan import DaemonSpec
from gpu_device_plugin.telemetry import DaemonStarted, Listener, Outcome, nobody

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
"""Seconds before the first attempt to start a daemon again; each further pause is twice as long."""
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""A daemon that has lived so long begins with the shortest pause again."""


class DaemonKeeper:
    """Runs one daemon until it is stopped."""

    def __init__(
        self,
        spec: DaemonSpec,
        around: Surroundings,
        changed: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
        tell: Listener = nobody,
    ) -> None:
        """Prepares a daemon.

        Args:
            spec: what it shall be.
            around: what it needs.
            changed: called whenever `is_up` has changed.
            clock: seconds that go on steadily.
            pause: waits for so many seconds.
            tell: hears of each attempt to start it.
        """
        self.spec = spec
        self.is_up = False
        """Whether the daemon runs, as far as is known, with its limits."""
        self.problem = ""
        """Why it does not run; empty if it does, and before the first attempt has ended."""
        self._daemon = MpsDaemon(spec, around)
        self._changed = changed
        self._clock = clock
        self._pause = pause
        self._tell = tell
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins."""
        self._task = asyncio.create_task(self._run(), name=f"MPS daemon {self.spec.resource}")

    async def stop(self) -> list[str]:
        """Ends the daemon; returns what could not be undone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._set_up(False)
        return await self._daemon.stop()

    def _set_up(self, now: bool) -> None:
        if now is not self.is_up:
            self.is_up = now
            self._changed()

    async def _start(self) -> None:
        """Starts the daemon, and tells whether that went well."""
        try:
            await self._daemon.start()
        except Exception:
            self._tell(DaemonStarted(self.spec.resource, Outcome.FAILED))
            raise
        self.problem = ""
        self._tell(DaemonStarted(self.spec.resource, Outcome.OK))

    async def _run(self) -> None:
        while True:
            try:
                await self._start()
                since = self._clock()
                self._set_up(True)
                await self._daemon.wait_for_death()
                self._set_up(False)
                if self._clock() - since >= STEADY_SECONDS:
                    self._failures = 0
                self.problem = f"the MPS daemon has died pid={self._daemon.pid}"
            except StartFailed as error:
                self.problem = f"the MPS daemon cannot be started: {error}"
            except Exception:
                log.exception("keeping the MPS daemon failed resource=%s", self.spec.resource)
                self._set_up(False)
                self.problem = "keeping the MPS daemon failed by an error; the log has it"
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
            self._failures += 1
            log.error(
                "%s; next attempt in %g s resource=%s", self.problem, pause, self.spec.resource
            )
            for trouble in await self._daemon.stop():
                log.error("%s resource=%s", trouble, self.spec.resource)
            await self._pause(pause)
