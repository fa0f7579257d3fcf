"""Labels of the node that is being served, and of no other.

They are made from the reading that the devices come from. Whatever keeps them from being published
is tried again, and neither stops the devices nor holds them up for longer than `PATIENCE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.errors import InitError, UserError
from gpu_device_plugin.hardware.described import facts_of
from gpu_device_plugin.hardware.node_facts import NodeFacts, NodeSource
from gpu_device_plugin.kube.errors import ApiError
from gpu_device_plugin.labels.compute import make_labels
from gpu_device_plugin.labels.model import Labels
from gpu_device_plugin.labels.output import Output
from gpu_device_plugin.labels.reports import Reports
from gpu_device_plugin.labels.service import Wait, problems_of, wait_for
from gpu_device_plugin.labels.work import Work
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.status.model import Labelling
from gpu_device_plugin.telemetry import Labelled, Listener, Outcome, nobody
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 1.0
"""Longest wait of the devices until the labels are out."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The reading that a node comes from, as a source of facts."""

    node: Node

    @property
    def name(self) -> str:
        """The strategy by which it was read."""
        return self.node.backend.name

    def read(self) -> NodeFacts:
        """What was read.

        Raises:
            InitError: nothing could be read.
        """
        if self.node.inventory is None:
            raise InitError(self.node.init_problem)
        return facts_of(self.node.inventory)


SetUp = Callable[[Loaded, NodeSource], Work]
"""What a configuration says of labels; raises UserError if they cannot be published as told."""


class Labeller:
    """Publishes the labels of one node after the other.

    Args:
        set_up: what configurations say.
        clock: seconds since 1970.
        wait: waits for an event or so many seconds.
        tell: hears of every pass.
    """

    def __init__(
        self,
        set_up: SetUp,
        *,
        clock: Callable[[], float] = time.time,
        wait: Wait = wait_for,
        tell: Listener = nobody,
    ) -> None:
        self._set_up = set_up
        self._clock = clock
        self._wait = wait
        self._tell = tell
        self._wake = asyncio.Event()
        self._out = asyncio.Event()
        """Set while the labels of the newest node are out."""
        self._node: Node | None = None
        self._labelled: Node | None = None
        """The node that the labels are of."""
        self._labels = Labels()
        self._driver_problem = ""
        self._work: Work | None = None
        self._loaded: Loaded | None = None
        """The configuration that the work comes from."""
        self._former: list[Output] = []
        """Places that labels were published to before, and may still be."""
        self._timestamp = 0
        self._backoff = Backoff()
        self._reports = Reports()
        self._problem = ""
        self._state = Labelling(0.0, "")

    @property
    def state(self) -> Labelling:
        """The labels that are out, and what is wrong with them."""
        return self._state

    @property
    def problem(self) -> str:
        """Why labels are not published; empty if they are."""
        return self._problem

    async def take(self, node: Node) -> None:
        """Labels this node from now on; returns when that is done, or when patience ends."""
        self._node = node
        self._out.clear()
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._out.wait()

    async def run(self) -> None:
        """Keeps the labels of the newest node out; never returns."""
        while True:
            self._wake.clear()
            await self._wait(self._wake, await self._pass())

    async def end(self) -> None:
        """Takes away what has to go at the end of the program."""
        outputs = [*self._former, *((self._work.output,) if self._work else ())]
        for output in outputs:
            await output.withdraw()
            await output.close()

    async def _pass(self) -> float | None:
        """Publishes what there is to publish; the seconds until it should be done again."""
        node = self._node
        if node is None:
            return None
        began = time.monotonic()
        problem = ""
        pause: float | None = None
        try:
            work = await self._label(node)
            await self._publish(work)
            pause = work.interval
        except UserError as error:
            pause = self._backoff.next(error.retry_after if isinstance(error, ApiError) else 0)
            problem = str(error)
        except Exception as error:
            # An error of the program in labels is none in devices.
            log.exception("the node cannot be labelled")
            pause, problem = self._backoff.next(), f"{type(error).__name__}: {error}"
        self._note(problem)
        if not problem and node is self._node:
            self._out.set()
        published = 0 if problem else len(self._state.labels)
        seconds = time.monotonic() - began
        self._tell(Labelled(self._outcome(problem), seconds, published, pause))
        return pause

    def _outcome(self, problem: str) -> Outcome:
        if problem or self._labels.failures():
            return Outcome.FAILED
        return Outcome.REFUSED if self._driver_problem else Outcome.OK

    async def _label(self, node: Node) -> Work:
        """Makes the labels of a node, unless that is done already."""
        work = self._work
        if work is None or node.loaded is not self._loaded:
            work = await self._begin(node)
        if node is not self._labelled:
            reader = replace(work.reader, source=NodeReading(node))
            timestamp = None if work.flags.no_timestamp else self._timestamp
            facts = await in_thread("facts", lambda: reader.read(timestamp))
            self._labels = make_labels(node.loaded.config, facts)
            self._driver_problem = facts.driver_problem
            self._reports.update(problems_of(self._labels, facts))
            self._labelled = node
        return work

    async def _begin(self, node: Node) -> Work:
        """Prepares for a configuration."""
        work, before = self._set_up(node.loaded, NodeReading(node)), self._work
        if before is not None:
            await before.output.close()
            if before.output.place != work.output.place:
                self._former.append(before.output)
        self._work, self._loaded, self._labelled = work, node.loaded, None
        self._timestamp = int(self._clock())
        self._backoff.reset()
        return work

    async def _publish(self, work: Work) -> None:
        labels = self._labels.published()
        changed = await work.output.publish(labels)
        if changed:
            log.info("published %d labels to %s", len(labels), work.output.place)
        self._backoff.reset()
        self._state = Labelling(0.0, work.output.place, tuple(sorted(labels.items())))
        while self._former:
            await self._former.pop().withdraw()

    def _note(self, problem: str) -> None:
        """Says it when a problem begins, changes or ends; keeps the state up to date."""
        if problem and problem != self._problem:
            log.warning("%s; trying again", problem)
        elif self._problem and not problem:
            log.info("the labels are out again")
        self._problem = problem
        self._state = replace(
            self._state,
            time=self._clock(),
            place=self._work.output.place if self._work else self._state.place,
            problem="; ".join(filter(None, (problem, *self._labels.failures()))),
        )
