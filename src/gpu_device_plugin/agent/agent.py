"""The life of the agent: signals, the configuration, the devices, the labels.

The devices are what everything else is beside: what goes wrong with the label of the node, with
its configurations or with the labels to be published is tried again and stops nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, replace

from gpu_device_plugin.agent.configurations import Configurations
from gpu_device_plugin.agent.labeller import Labeller
from gpu_device_plugin.labels.reports import SaidOnce
from gpu_device_plugin.labels.service import REPEATING_LOGGERS, wait_for
from gpu_device_plugin.plugin.companions import INIT_RETRY_SECONDS
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.observation import Observation, Reload
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.status.model import Check, Labelling
from gpu_device_plugin.status.probes import check
from gpu_device_plugin.telemetry import Happening, HealthChanged, Listener, Outcome, Reloaded
from gpu_device_plugin.watch.directories import DirectoryWatch
from gpu_device_plugin.watch.loop import tell_errors_once
from gpu_device_plugin.watch.node_label import NodeLabel
from gpu_device_plugin.watch.signals import on_signals, run_until

log = logging.getLogger(__name__)

FIRST_SIGHT_SECONDS = 10.0
"""Longest wait for the node before something is chosen without its label."""
LOOK_SECONDS = 5.0
"""How often the configuration is looked at though nothing has happened: its contents may be
written in place without an event."""
RESTART_SECONDS = 30.0
"""Pause before a task is begun again that an error of the program has ended."""

Work = Callable[[], Coroutine[object, object, None]]
Announce = Callable[[Node], Awaitable[None]]
MakeSupervisor = Callable[[Announce, Listener], Supervisor]
"""Makes the plugin; it announces nodes to the first and tells the second what happens."""


@dataclass(frozen=True, slots=True)
class Following:
    """A label of the node that is followed."""

    label: NodeLabel
    follow: Work
    """Feeds the label; never ends by itself."""


class Agent:
    """Runs all parts until a signal ends it.

    Args:
        configurations: knows which configuration is wanted and which is in force.
        make_supervisor: makes the plugin.
        labeller: publishes labels; None if there are to be none.
        following: the label that chooses the configuration; None if it is none.
        directory: where configurations change; empty if there is no file.
        wake: set when the configuration may have changed.
    """

    def __init__(
        self,
        configurations: Configurations,
        make_supervisor: MakeSupervisor,
        *,
        labeller: Labeller | None = None,
        following: Following | None = None,
        directory: str = "",
        wake: asyncio.Event | None = None,
    ) -> None:
        self._configurations = configurations
        self._labeller = labeller
        self._following = following
        self._directory = directory
        self._wake = wake or asyncio.Event()
        self._stop = asyncio.Event()
        self._is_asked = False
        """Whether a reload is wanted whatever has changed."""
        self._tasks: list[asyncio.Task[None]] = []
        self._said_once = SaidOnce()
        self._supervisor = make_supervisor(self._announce, self._hear)

    def observe(self) -> Observation:
        """What is served, and how that goes; the problem is why what is wanted is not in force."""
        seen, problem = self._supervisor.observe(), self._configurations.problem
        if problem:
            return replace(seen, last_reload=Reload(self._configurations.problem_since, problem))
        last = seen.last_reload
        return seen if last is None else replace(seen, last_reload=replace(last, error=""))

    def readiness(self) -> Check:
        """What there is to say about it beside what is observed."""
        return check(self._lacks())

    def _lacks(self) -> Iterator[str]:
        problem = self._configurations.problem
        if problem and self._supervisor.observe().node is None:
            yield f"no configuration can be used: {problem}"
        if self._labeller is not None and self._labeller.problem:
            yield f"the labels are not published: {self._labeller.problem}"

    def profile(self) -> str:
        """The name of the configuration in force."""
        return self._configurations.profile

    def labelling(self) -> Labelling | None:
        """The labels that are out; None if none are made."""
        return None if self._labeller is None else self._labeller.state

    async def run(self) -> None:
        """Serves and labels the node; returns after SIGINT, SIGTERM or SIGQUIT.

        Raises:
            UserError: the node cannot be served and waiting is not allowed or of no use.
        """
        tell_errors_once()
        on_signals(stop=self._on_stop, reload=self._on_reload)
        for logger in REPEATING_LOGGERS:
            logger.addFilter(self._said_once)
        watch = DirectoryWatch([self._directory], self._wake.set) if self._directory else None
        if watch is not None:
            watch.start()
        try:
            await self._live()
        finally:
            if watch is not None:
                watch.stop()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._labeller is not None:
                await self._labeller.end()
            for logger in REPEATING_LOGGERS:
                logger.removeFilter(self._said_once)

    async def _live(self) -> None:
        if self._following is not None:
            self._begin("label", self._following.follow)
        await run_until(self._stop, "first configuration", self._find_first())
        if self._stop.is_set():
            return
        self._begin("configuration", self._follow_configuration)
        self._begin("plan", self._try_again)
        if self._labeller is not None:
            self._begin("labels", self._labeller.run)
        await self._supervisor.serve(self._stop)

    async def _find_first(self) -> None:
        """Returns as soon as there is a configuration to begin with."""
        if self._following is not None:
            await self._see_node(self._following.label)
        while not await self._configurations.begin():
            await self._something()

    async def _see_node(self, label: NodeLabel) -> None:
        """Waits, not for ever, so that the default is not applied before the label is known."""
        if not await wait_for(label.seen, FIRST_SIGHT_SECONDS):
            log.warning(
                "the node was not seen within %g s: going on without its label until it is",
                FIRST_SIGHT_SECONDS,
            )

    async def _follow_configuration(self) -> None:
        while True:
            await self._something()
            asked, self._is_asked = self._is_asked, False
            if await self._configurations.look(anew=asked) or asked:
                self._supervisor.reload()

    async def _try_again(self) -> None:
        """Looks again and again whether GPUs can be offered that could not be as configured.

        What is missing need not be hardware that a rescan sees: an IMEX channel, a directory.
        """
        while True:
            await asyncio.sleep(INIT_RETRY_SECONDS)
            node = self._supervisor.observe().node
            if node is None or not node.plan_problem or node.problem_is_over is not None:
                continue
            if await self._configurations.fits(node):
                self._supervisor.reload()

    async def _something(self) -> None:
        """Waits until the configuration may be another."""
        await wait_for(self._wake, LOOK_SECONDS if self._directory else None)
        self._wake.clear()

    async def _announce(self, node: Node) -> None:
        """Hears of every node that is served."""
        self._configurations.taken(node)
        self._wake.set()
        if self._labeller is not None:
            await self._labeller.take(node)

    def _hear(self, happening: Happening) -> None:
        if isinstance(happening, Reloaded):
            self._said_once.forget()
            if happening.outcome is Outcome.FAILED:
                self._configurations.failed(happening.error, is_passing=happening.is_passing)
                self._wake.set()
        elif isinstance(happening, HealthChanged) and happening.devices:
            # What the hardware is now is for the next reading to say, for devices and labels.
            self._supervisor.rescan()

    def _on_stop(self, number: signal.Signals) -> None:
        log.info("%s: shutting down", number.name)
        self._stop.set()

    def _on_reload(self) -> None:
        log.info("SIGHUP: reloading")
        self._is_asked = True
        self._wake.set()

    def _begin(self, name: str, work: Work) -> None:
        self._tasks.append(asyncio.create_task(_guarded(name, work), name=name))


async def _guarded(name: str, work: Work) -> None:
    """Lets no error of the program end a task for good, nor the tasks beside it."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("the task %s failed; it begins again in %g s", name, RESTART_SECONDS)
            await asyncio.sleep(RESTART_SECONDS)
        else:
            return
