"""Reports the health of a node's GPUs to Kubernetes, beside whatever the program does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.kube.errors import KubeError
from gpu_device_plugin.news import News
from gpu_device_plugin.reports.clock import Clock
from gpu_device_plugin.reports.events import Api, EventReporter
from gpu_device_plugin.reports.model import NodeHealth, Report
from gpu_device_plugin.reports.node_condition import ConditionReporter
from gpu_device_plugin.telemetry import Happening

log = logging.getLogger(__name__)

END_SECONDS = 1.0
"""How long the end of the program waits for the last reports."""


class HealthReporter:
    """Listens to what happens and reports it; nothing that goes wrong here harms the program.

    Args:
        connect: makes a client of the Kubernetes API; may raise `KubeError`.
        node: name of the node.
        component: the program that reports.
        reports: what is asked for.
        clock: the time.
    """

    def __init__(
        self,
        connect: Callable[[], Api],
        *,
        node: str,
        component: str,
        reports: Collection[Report],
        clock: Clock | None = None,
    ) -> None:
        self._connect = connect
        self._node = node
        self._reports = tuple(reports)
        self._clock = clock or Clock()
        self._api: Api | None = None
        self._observe: Callable[[], NodeHealth] = NodeHealth
        self._parts: list[EventReporter | ConditionReporter] = []
        if Report.EVENTS in reports:
            self._parts.append(EventReporter(node, component, self._look, self._clock))
        if Report.CONDITION in reports:
            self._parts.append(ConditionReporter(node, self._look, self._clock))

    def tell(self, happening: Happening) -> None:
        """Takes what has happened; a `telemetry.Listener`."""
        for part in self._parts:
            part.tell(happening)

    @asynccontextmanager
    async def running(self, observe: Callable[[], NodeHealth]) -> AsyncIterator[None]:
        """Reports until the end of the context, which waits for a second at most.

        Args:
            observe: tells how the GPUs are doing now; takes milliseconds.
        """
        self._observe = observe
        task = asyncio.create_task(self._run(), name="health reports")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._finish()

    def _look(self) -> NodeHealth:
        return self._observe()

    async def _run(self) -> None:
        log.info(
            "reporting GPU health to Kubernetes as %s node=%s", ", ".join(self._reports), self._node
        )
        try:
            api = self._api = await self._connected()
            async with asyncio.TaskGroup() as group:
                for part in self._parts:
                    group.create_task(part.run(api), name=part.name)
        except Exception:
            log.exception("GPU health is not reported any more")

    async def _connected(self) -> Api:
        """The client, which may take a service account or a file that is not there yet."""
        pauses, news = Backoff(first=5.0, most=300.0), News()
        while True:
            try:
                return self._connect()
            except KubeError as error:
                if news.is_new(str(error)):
                    log.error("GPU health is not reported: %s; trying again", error)
            await self._clock.sleep(pauses.next())

    async def _finish(self) -> None:
        if self._api is None:
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                await asyncio.gather(*(part.finish(self._api) for part in self._parts))
        except TimeoutError:
            log.info("the last GPU health reports did not reach the Kubernetes API in time")
        except Exception:
            log.exception("the last GPU health reports failed")
        finally:
            await self._api.close()
