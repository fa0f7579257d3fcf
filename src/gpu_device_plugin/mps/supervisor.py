"""The life of the program: the daemons that the configuration asks for, kept so until the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.mps.daemon import Surroundings
from gpu_device_plugin.mps.keeper import DaemonKeeper
from gpu_device_plugin.mps.names import ready_file, touch
from gpu_device_plugin.mps.plan import DaemonSpec
from gpu_device_plugin.mps.remains import repair
from gpu_device_plugin.news import News
from gpu_device_plugin.storage import remedy
from gpu_device_plugin.telemetry import Listener, Outcome, Reloaded, nobody
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)

DRIVER_RETRY_SECONDS = 30.0
"""Pause before a driver that could not be used is tried again."""
MARK_RETRY_SECONDS = 5.0
"""Pause before the file that tells of readiness is made, where that was not possible."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the node needs."""

    daemons: tuple[DaemonSpec, ...] = ()
    problem: str = ""
    """Why that is not known yet, though waiting is allowed; empty if it is."""


@dataclass(frozen=True, slots=True)
class DaemonState:
    """How a daemon is doing."""

    resource: str
    is_up: bool
    """Whether it runs with its limits."""
    problem: str
    """Why it does not; empty if it does, or is being started for the first time."""


class MpsSupervisor:
    """Runs the daemons of a node until it is told to stop."""

    def __init__(
        self, read: Callable[[], Wanted], around: Surroundings, tell: Listener = nobody
    ) -> None:
        """Prepares.

        Args:
            read: reads configuration and hardware; may block, raises UserError.
            around: what the daemons need.
            tell: hears what happens.
        """
        self._read = read
        self._tell = tell
        self._around = around
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._reload = False
        self.problem = ""
        """Why it is not known which daemons are needed; empty if it is."""
        self.is_ready = False
        """Whether every daemon that is needed runs, as the file `.ready` tells."""
        self.mark_problem = ""
        """Why that file cannot be made though they run; empty if it can."""
        self._mark_news = News()
        self._was_ready = False
        self._keepers = dict[str, DaemonKeeper]()

    def observe(self) -> tuple[DaemonState, ...]:
        """How each daemon that is wanted is doing."""
        return tuple(
            DaemonState(keeper.spec.resource, keeper.is_up, keeper.problem)
            for keeper in self._keepers.values()
        )

    def stop(self) -> None:
        """Lets `run` end."""
        self._stop.set()

    def reload(self) -> None:
        """Has the configuration read anew."""
        self._reload = True
        self._wake.set()

    async def run(self) -> None:
        """Keeps the daemons running; returns after `stop`, when nothing of them is left.

        Raises:
            UserError: the configuration or the hardware cannot be used, or the compute mode of
                a GPU cannot be set back at the end.
        """
        self._around.remover.withdraw(ready_file(self._around.root))
        life = asyncio.create_task(self._live(), name="supervisor")
        end = asyncio.create_task(self._stop.wait(), name="stop signal")
        try:
            await asyncio.wait({life, end}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_done = life.done()
            life.cancel()
            end.cancel()
            await asyncio.gather(life, end, return_exceptions=True)
            self._around.remover.withdraw(ready_file(self._around.root))
            problems = await self._end(list(self._keepers.values()))
        if was_done:
            life.result()
        if problems:
            raise UserError("at the end: " + "; ".join(problems))

    async def _live(self) -> None:
        wanted = await in_thread("read", self._read)
        by_resource = {spec.resource: spec for spec in wanted.daemons}
        around = self._around
        await repair(around.root, by_resource, around.tool, around.modes, around.remover)
        await self._apply(wanted)
        while True:
            self._show_readiness()
            await self._wait()
            self._wake.clear()
            if self._reload:
                self._reload = False
                await self._read_anew()

    async def _wait(self) -> None:
        """Waits for news; while the driver or a file cannot be used, not for long."""
        limit = DRIVER_RETRY_SECONDS if self.problem else None
        if self.mark_problem:
            limit = MARK_RETRY_SECONDS
        try:
            async with asyncio.timeout(limit):
                await self._wake.wait()
        except TimeoutError:
            # A reload that was asked for in the same moment stays asked for.
            if self.problem:
                self._reload = True

    async def _read_anew(self) -> None:
        """Follows a new configuration; one that cannot be used changes nothing."""
        try:
            wanted = await in_thread("read", self._read)
        except UserError as error:
            log.error("%s; the last good configuration stays in force", error)
            self._tell(Reloaded(Outcome.FAILED, str(error)))
            return
        # While the driver is waited for, nothing new has come of another attempt.
        is_news = not wanted.problem or wanted.problem != self.problem
        if wanted.problem and self._keepers:
            log.error("%s; the daemons go on as they are", wanted.problem)
        else:
            await self._apply(wanted)
        if is_news:
            outcome = Outcome.FAILED if wanted.problem else Outcome.OK
            self._tell(Reloaded(outcome, wanted.problem))

    async def _apply(self, wanted: Wanted) -> None:
        """Ends the daemons that are not wanted any more, then starts those that are new.

        One that is wanted as it is goes on, and so do its clients.
        """
        if wanted.problem and wanted.problem != self.problem:
            log.warning(
                "%s; waiting, as failOnInitError is false: next attempt every %g s",
                wanted.problem,
                DRIVER_RETRY_SECONDS,
            )
        self.problem = wanted.problem
        specs = {spec.resource: spec for spec in wanted.daemons}
        ended = [k for k in self._keepers.values() if specs.get(k.spec.resource) != k.spec]
        if ended or specs.keys() - self._keepers.keys():
            self._withdraw_readiness()
        for problem in await self._end(ended):
            log.error("%s", problem)
        for keeper in ended:
            del self._keepers[keeper.spec.resource]
        for name, spec in specs.items():
            if name in self._keepers:
                log.info("nothing changes for its daemon resource=%s", name)
                continue
            for warning in spec.warnings:
                log.warning("%s resource=%s", warning, name)
            keeper = DaemonKeeper(spec, self._around, self._wake.set, tell=self._tell)
            self._keepers[name] = keeper
            keeper.start()
        if not specs and not wanted.problem:
            log.info("no MPS daemon is needed: waiting for a signal")

    @staticmethod
    async def _end(keepers: list[DaemonKeeper]) -> list[str]:
        found = await asyncio.gather(*(keeper.stop() for keeper in keepers))
        return [problem for problems in found for problem in problems]

    def _show_readiness(self) -> None:
        """Makes or removes the file that tells whether every daemon runs.

        Raises:
            ConfigError: the file cannot be made, and never could be, as in v0.19.3.
        """
        ready = not self.problem and all(k.is_up for k in self._keepers.values())
        self.mark_problem = ""
        if not ready:
            self._mark_news.end()
            self._withdraw_readiness()
        elif not self.is_ready:
            try:
                self._mark_ready()
            except ConfigError as error:
                if not self._was_ready:
                    raise
                self.mark_problem = str(error)
                if self._mark_news.is_new(self.mark_problem):
                    log.error("%s; trying again", error)
            else:
                self._mark_news.end()
                self.is_ready = self._was_ready = True
                log.info("ready")

    def _mark_ready(self) -> None:
        path = ready_file(self._around.root)
        try:
            touch(path)
        except OSError as error:
            hint = remedy(error, self._around.root)
            raise ConfigError(
                f"{path} cannot be made: {error.strerror}",
                hint or "mount the directory of --mps-root there, writable",
            ) from None

    def _withdraw_readiness(self) -> None:
        if self.is_ready:
            log.info("not ready any more")
        self.is_ready = False
        self._around.remover.withdraw(ready_file(self._around.root))
