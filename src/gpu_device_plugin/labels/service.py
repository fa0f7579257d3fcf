"""The life of gpu-feature-discovery: passes, reloads, waiting for the driver and the API, end.

As in k8s-device-plugin v0.19.3 (cmd/gpu-feature-discovery) a pass reads everything anew. Unlike
there, what can pass by itself does not end the program: see `LabelService`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpu_device_plugin.config.validate import validate_mig_strategy
from gpu_device_plugin.errors import HardwareError, UserError
from gpu_device_plugin.kube.errors import ApiError, KubeError
from gpu_device_plugin.labels.compute import make_labels
from gpu_device_plugin.labels.model import Facts, Labels
from gpu_device_plugin.labels.output import Output
from gpu_device_plugin.labels.record import LabelRecord
from gpu_device_plugin.labels.reports import Reports, SaidOnce
from gpu_device_plugin.labels.work import Pauses, Work
from gpu_device_plugin.news import News
from gpu_device_plugin.telemetry import Labelled, Listener, Outcome, Reloaded, nobody
from gpu_device_plugin.threads import in_thread
from gpu_device_plugin.watch.signals import on_signals, run_until

log = logging.getLogger(__name__)

ONESHOT_SECONDS = 30.0
"""How long the one pass of `--oneshot` goes on trying to reach the API."""
REPEATING_LOGGERS = tuple(
    logging.getLogger(f"gpu_device_plugin.hardware.{name}") for name in ("nvml_read", "vfio")
)
"""They tell of the same lack at every pass."""

Wait = Callable[[asyncio.Event, float | None], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Passed:
    """How a pass has ended."""

    outcome: Outcome
    labels: int
    """How many are out."""
    pause: float | None
    """Seconds until the next pass; None to wait for a reload."""


async def wait_for(event: asyncio.Event, seconds: float | None) -> bool:
    """Whether the event comes within that time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


class LabelService:
    """Labels the node until a signal ends it, or once.

    What may pass is waited for, with pauses that double, and labels that are out stay out
    meanwhile: a driver that is missing (if that is tolerated), an API that is down or forbids
    what is asked of it, a directory that became read-only. A bad configuration at a reload
    leaves the last good one in force.
    """

    def __init__(
        self,
        configure: Callable[[], Work],
        *,
        clock: Callable[[], float] = time.time,
        wait: Wait = wait_for,
        pauses: Pauses | None = None,
        tell: Listener = nobody,
    ) -> None:
        """Prepares the service.

        Args:
            configure: reads the configuration, anew at every reload; may block and raise
                `UserError`.
            clock: seconds since 1970.
            wait: waits for an event or so many seconds.
            pauses: before something is tried again.
            tell: hears what happens.
        """
        self._configure = configure
        self._clock = clock
        self._wait = wait
        self._pauses = pauses or Pauses()
        self._tell = tell
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self.work: Work | None = None
        """What is being done; None until the configuration has been read."""
        self.record = LabelRecord(clock)
        self._former: list[Output] = []
        """Places that labels were published to before a reload, and may still be."""
        self._timestamp = 0
        self._reports = Reports()
        self._output_news = News()
        self._has_published = False
        self._said_once = SaidOnce()

    async def run(self) -> None:
        """Labels the node; returns after the one pass, or SIGINT, SIGTERM or SIGQUIT.

        Raises:
            UserError: the node cannot be labelled, and waiting is not allowed or of no use.
        """
        for logger in REPEATING_LOGGERS:
            logger.addFilter(self._said_once)
        on_signals(stop=self._on_stop, reload=self._on_reload)
        try:
            await run_until(self._stop, "labels", self._live())
        finally:
            await self._end()
            for logger in REPEATING_LOGGERS:
                logger.removeFilter(self._said_once)

    def _on_stop(self, number: signal.Signals) -> None:
        log.info("%s: shutting down", number.name)
        self._stop.set()

    def _on_reload(self) -> None:
        log.info("SIGHUP: reloading")
        self._wake.set()

    async def _live(self) -> None:
        work = await in_thread("configure", self._configure)
        self._begin(work)
        while True:
            passed = await self._pass_and_tell(work)
            if work.flags.oneshot:
                return
            if await self._wait(self._wake, passed.pause):
                self._wake.clear()
                work = await self._reload(work)

    def _begin(self, work: Work) -> None:
        self.work = work
        self._timestamp = int(self._clock())
        self._said_once.forget()

    async def _reload(self, work: Work) -> Work:
        try:
            fresh = await in_thread("configure", self._configure)
            validate_mig_strategy(fresh.config, fresh.origins)
        except UserError as error:
            log.error("%s; the last good configuration stays in force", error)
            self.record.reload_problem = str(error)
            self._tell(Reloaded(Outcome.FAILED, str(error)))
            return work
        await work.output.close()
        if work.output.place != fresh.output.place:
            self._former.append(work.output)
            self.record.move()
        self.record.reload_problem = ""
        self._begin(fresh)
        self._tell(Reloaded(Outcome.OK))
        return fresh

    async def _end(self) -> None:
        """Takes away what has to go at the end of the program."""
        for output in [*self._former, *((self.work.output,) if self.work else ())]:
            await output.withdraw()
            await output.close()

    async def _pass_and_tell(self, work: Work) -> Passed:
        """Labels the node once, and tells how that ended, be it by an error."""
        began = time.perf_counter()
        try:
            passed = await self._pass(work)
        except Exception:
            self._tell(Labelled(Outcome.FAILED, time.perf_counter() - began))
            raise
        seconds = time.perf_counter() - began
        pause = None if work.flags.oneshot else passed.pause
        self._tell(Labelled(passed.outcome, seconds, passed.labels, pause))
        return passed

    async def _pass(self, work: Work) -> Passed:
        """Labels the node once."""
        timestamp = None if work.flags.no_timestamp else self._timestamp
        self.record.ask()
        facts = await in_thread("read", lambda: work.reader.read(timestamp))
        if facts.node.has_devices:
            validate_mig_strategy(work.config, work.origins)
        labels = make_labels(work.config, facts)
        self._reports.update(problems_of(labels, facts))
        self.record.take(facts.driver_problem, labels.failures())
        retry = await self._publish(work, labels)
        if work.flags.oneshot:
            _require_complete(labels)
        if retry is not None:
            return Passed(Outcome.FAILED, 0, retry)
        published = len(labels.published())
        if facts.driver_problem:
            pause = self._pauses.driver.next()
            if work.interval is not None:
                pause = min(pause, work.interval)
            return Passed(Outcome.REFUSED, published, pause)
        self._pauses.driver.reset()
        outcome = Outcome.FAILED if labels.failures() else Outcome.OK
        return Passed(outcome, published, work.interval)

    async def _publish(self, work: Work, labels: Labels) -> float | None:
        """Publishes the labels; returns seconds until the next attempt, None if it succeeded."""
        began = asyncio.get_running_loop().time()
        while True:
            try:
                changed = await work.output.publish(labels.published())
            except UserError as error:
                elapsed = asyncio.get_running_loop().time() - began
                pause = self._pause_after(work, error, elapsed)
                if not work.flags.oneshot:
                    return pause
                await self._wait(self._stop, pause)
            else:
                await self._published(work, len(labels.labels), changed=changed)
                self.record.publish(labels.published())
                return None

    def _pause_after(self, work: Work, error: UserError, elapsed: float) -> float:
        """How long to wait after a failure, which is raised if waiting is of no use."""
        is_api = isinstance(error, KubeError)
        if work.flags.oneshot:
            is_refusal = isinstance(error, ApiError) and not error.is_transient
            if not is_api or is_refusal or elapsed > ONESHOT_SECONDS:
                raise error
        elif not is_api and not self._has_published:
            raise error
        pause = self._pauses.output.next(error.retry_after if isinstance(error, ApiError) else 0)
        if self._output_news.is_new(str(error)):
            log.warning("%s; trying again", error)
        self.record.output_problem = str(error)
        return pause

    async def _published(self, work: Work, count: int, *, changed: bool) -> None:
        was_wrong = self._output_news.end()
        if changed:
            log.info("published %d labels to %s", count, work.output.place)
        elif was_wrong:
            log.info("%s is as it should be again", work.output.place)
        self._has_published = True
        self._pauses.output.reset()
        while self._former:
            await self._former.pop().withdraw()


def problems_of(labels: Labels, facts: Facts) -> list[str]:
    """What is wrong with the labels of a pass, a sentence each."""
    told = [problem.text for problem in labels.problems]
    if facts.driver_problem:
        told.append(f"{facts.driver_problem}; waiting for it, as failOnInitError is false")
    if len(labels.labels) <= 1:
        told.append("no labels: nothing was found to label the node with")
    return told


def _require_complete(labels: Labels) -> None:
    """Lets a single pass fail that could not make all labels; those that it could are out."""
    failures = labels.failures()
    if failures:
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        raise HardwareError(f"the labels are not complete: {failures[0]}{more}")
