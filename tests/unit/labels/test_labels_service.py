"""The life of the service, with a clock and pauses of the test's own."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from support.aio import run, until
from support.configs import time_sliced
from support.inventories import a_gpu, cut_gpu
from support.labels import facts_of, gfd_config
from support.outputs import Place

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.model import Config, GfdFlags
from gpu_device_plugin.errors import ConfigError, HardwareError, InitError, UserError
from gpu_device_plugin.hardware.model import Gpu
from gpu_device_plugin.hardware.node_facts import NodeFacts
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.output import OutputError
from gpu_device_plugin.labels.reports import Reports, SaidOnce
from gpu_device_plugin.labels.service import LabelService
from gpu_device_plugin.labels.work import Pauses, Work
from gpu_device_plugin.telemetry import Happening, Labelled, Outcome, Reloaded

SECOND = 10**9


@dataclass
class Source:
    """A node that changes, or cannot be read."""

    gpus: list[Gpu] = field(default_factory=lambda: [a_gpu(0)])
    problem: InitError | None = None
    name: str = "simulated"

    def read(self) -> NodeFacts:
        if self.problem is not None:
            raise self.problem
        return facts_of(self.gpus).node


class Waits:
    """Lets passes follow each other only when the test says so."""

    def __init__(self) -> None:
        self.seconds: list[float | None] = []
        self._next = asyncio.Event()

    async def __call__(self, event: asyncio.Event, seconds: float | None) -> bool:
        self.seconds.append(seconds)
        waiting = asyncio.ensure_future(event.wait())
        due = asyncio.ensure_future(self._next.wait())
        try:
            await asyncio.wait({waiting, due}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            due.cancel()
            await asyncio.gather(waiting, due, return_exceptions=True)
        self._next.clear()
        return event.is_set()

    async def pass_on(self) -> None:
        """Lets the time pass, and waits for the next wait."""
        count = len(self.seconds)
        self._next.set()
        await until(lambda: len(self.seconds) > count)

    def end(self) -> None:
        """Lets the time pass; nothing is waited for any more."""
        self._next.set()

    async def begun(self, count: int = 1) -> None:
        await until(lambda: len(self.seconds) >= count)


@dataclass
class Node:
    """A service and all around it."""

    source: Source = field(default_factory=Source)
    place: Place = field(default_factory=Place)
    config: Config = field(default_factory=gfd_config)
    tolerant: bool = False
    waits: Waits = field(default_factory=Waits)
    configuring: list[UserError] = field(default_factory=list)
    now: float = 1700000000.7
    told: list[Happening] = field(default_factory=list)

    def work(self) -> Work:
        if self.configuring:
            raise self.configuring.pop(0)
        reader = FactReader(self.source, "", tolerates_no_driver=self.tolerant)
        return Work(self.config, reader, self.place)

    def service(self) -> LabelService:
        return LabelService(
            self.work,
            clock=lambda: self.now,
            wait=self.waits,
            pauses=Pauses(Backoff(1.0, chance=lambda: 0.0), Backoff(chance=lambda: 0.0)),
            tell=self.told.append,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.service().run())
        try:
            await self.waits.begun()
            yield task
        finally:
            if not task.done():
                os.kill(os.getpid(), signal.SIGTERM)
            await task


def flags(**changes: object) -> Config:
    base = GfdFlags(
        oneshot=False,
        no_timestamp=False,
        sleep_interval=60 * SECOND,
        output_file="",
        machine_type_file="",
    )
    return gfd_config(gfd=replace(base, **changes))  # type: ignore[arg-type]  # by field name


def oneshot(node: Node) -> Node:
    node.config = flags(oneshot=True)
    return node


def once(node: Node) -> None:
    run(oneshot(node).service().run())


def test_one_pass_publishes_and_ends() -> None:
    node = Node()
    once(node)

    assert node.place.last("gpu.count") == "1"
    assert node.place.last("gfd.timestamp") == "1700000000"
    assert node.waits.seconds == []


def test_every_interval_the_node_is_read_anew() -> None:
    node = Node(config=flags())

    async def work() -> None:
        async with node.running():
            assert node.place.last("gpu.count") == "1"
            node.source.gpus = [a_gpu(0), a_gpu(1)]
            node.now += 1000
            await node.waits.pass_on()
            assert node.place.last("gpu.count") == "2"
            assert node.place.last("gfd.timestamp") == "1700000000"

    run(work())
    assert node.waits.seconds == [60, 60]
    assert node.place.events == ["withdrawn", "closed"]


def test_a_changed_mig_layout_shows_at_the_next_pass() -> None:
    node = Node(config=replace(flags(), flags=replace(flags().flags, mig_strategy="mixed")))

    async def work() -> None:
        async with node.running():
            node.source.gpus = [cut_gpu(0, 3, 3)]
            await node.waits.pass_on()
            assert node.place.last("mig-3g.20gb.count") == "2"
            node.source.gpus = [cut_gpu(0, 7)]
            await node.waits.pass_on()
            assert node.place.last("mig-3g.20gb.count") is None

    run(work())


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [(INFINITE, None), (0, 0.1), (-5 * SECOND, 0.1), (60, 0.1), (SECOND // 2, 0.5), (None, None)],
)
def test_intervals_that_make_no_sense_have_a_floor(
    interval: int | None, seconds: float | None
) -> None:
    node = Node(config=flags(sleep_interval=interval))

    async def work() -> None:
        async with node.running():
            pass

    run(work())
    assert node.waits.seconds == [seconds]


def test_without_timestamp_there_is_none() -> None:
    node = Node()
    node.config = flags(oneshot=True, no_timestamp=True)
    run(node.service().run())

    assert node.place.last("gfd.timestamp") is None


class TestReload:
    def test_the_configuration_and_the_time_are_read_anew(self) -> None:
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                node.config = replace(flags(), sharing=time_sliced(5))
                node.now += 100
                os.kill(os.getpid(), signal.SIGHUP)
                await node.waits.begun(2)
                assert node.place.last("gpu.replicas") == "5"
                assert node.place.last("gfd.timestamp") == "1700000100"

        run(work())
        assert node.place.events == ["closed", "withdrawn", "closed"]

    @pytest.mark.parametrize("error", [ConfigError("bad file"), UserError("bad node")])
    def test_one_that_cannot_be_used_leaves_the_last_one_in_force(
        self, error: UserError, caplog: pytest.LogCaptureFixture
    ) -> None:
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                node.configuring.append(error)
                os.kill(os.getpid(), signal.SIGHUP)
                await node.waits.begun(2)
                assert node.place.last("gpu.replicas") == "1"

        run(work())
        assert str(error) in caplog.text
        assert "the last good configuration stays in force" in caplog.text

    def test_a_bad_mig_strategy_is_one_of_these(self, caplog: pytest.LogCaptureFixture) -> None:
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                node.config = replace(flags(), flags=replace(flags().flags, mig_strategy="some"))
                os.kill(os.getpid(), signal.SIGHUP)
                await node.waits.begun(2)

        run(work())
        assert "mig-strategy" in caplog.text

    def test_a_former_place_is_cleared_once_the_new_one_has_its_labels(self) -> None:
        node = Node(config=flags())
        former = node.place

        async def work() -> None:
            async with node.running():
                node.place = Place("another place", failures=[ApiUnreachable("down")])
                os.kill(os.getpid(), signal.SIGHUP)
                await node.waits.begun(2)
                assert former.events == ["closed"]
                await node.waits.pass_on()
                assert former.events == ["closed", "withdrawn"]
                assert node.place.last("gpu.count") == "1"

        run(work())

    def test_a_new_place_that_cannot_be_written_ends_nothing(self, caplog) -> None:
        caplog.set_level(logging.INFO)
        node = Node(config=flags())
        former = node.place

        async def work() -> None:
            async with node.running():
                node.place = Place("another place", failures=[OutputError("read-only")] * 2)
                os.kill(os.getpid(), signal.SIGHUP)
                await node.waits.begun(2)
                await node.waits.pass_on()
                assert former.events == ["closed"]
                await node.waits.pass_on()
                assert former.events == ["closed", "withdrawn"]

        run(work())
        assert caplog.text.count("read-only; trying again") == 1


class TestDriver:
    MISSING = InitError("Driver Not Loaded")

    def test_one_that_is_missing_ends_the_program(self) -> None:
        node = Node(Source(problem=self.MISSING), config=flags())

        with pytest.raises(InitError):
            run(node.service().run())
        assert node.place.got == []

    @pytest.mark.parametrize("interval", [60 * SECOND, INFINITE])
    def test_if_that_is_tolerated_it_is_looked_for_ever_more_seldom(
        self, interval: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        node = Node(Source(problem=self.MISSING), tolerant=True)
        node.config = flags(sleep_interval=interval)

        async def work() -> None:
            async with node.running():
                for _ in range(6):
                    await node.waits.pass_on()
                assert node.place.got[-1].keys() == {
                    "nvidia.com/gfd.timestamp",
                    "nvidia.com/vgpu.present",
                }
                node.source.problem = None
                await node.waits.pass_on()
                assert node.place.last("gpu.count") == "1"

        run(work())
        rest = None if interval == INFINITE else 60
        assert node.waits.seconds == [1, 2, 4, 8, 16, 30, 30, rest]
        assert caplog.text.count("WARNING") == 1
        assert "no longer: Driver Not Loaded" in caplog.text

    def test_a_short_interval_is_not_made_longer(self) -> None:
        node = Node(Source(problem=self.MISSING), tolerant=True)
        node.config = flags(sleep_interval=SECOND)

        async def work() -> None:
            async with node.running():
                await node.waits.pass_on()

        run(work())
        assert node.waits.seconds == [1, 1]

    def test_a_single_pass_without_driver_is_no_failure_then(self) -> None:
        node = Node(Source(problem=self.MISSING), tolerant=True)
        once(node)

        assert node.place.last("vgpu.present") == "false"


class TestPublishing:
    FORBIDDEN = ApiError("GET /x", 403, message="no")
    DOWN = ApiUnreachable("no connection")

    @pytest.mark.parametrize("failure", [DOWN, FORBIDDEN, ApiError("PUT /x", 500)])
    def test_an_api_that_fails_is_tried_again(
        self, failure: UserError, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        node = Node(Source(), Place(failures=[failure] * 8), flags())

        async def work() -> None:
            async with node.running():
                for _ in range(8):
                    await node.waits.pass_on()

        run(work())
        assert node.waits.seconds == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 60])
        assert caplog.text.count("trying again") == 1
        assert "published" in caplog.text

    def test_the_time_that_an_api_asks_for_is_given(self) -> None:
        failure = ApiError("GET /x", 429, retry_after=11)
        node = Node(Source(), Place(failures=[failure]), flags())

        async def work() -> None:
            async with node.running():
                pass

        run(work())
        assert node.waits.seconds == [11]

    def test_an_api_that_comes_back_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                node.place.failures = [self.DOWN]
                await node.waits.pass_on()
                await node.waits.pass_on()

        run(work())
        assert "a place is as it should be again" in caplog.text

    def test_a_file_that_cannot_be_written_at_first_ends_the_program(self) -> None:
        node = Node(Source(), Place(failures=[OutputError("read-only")]), flags())

        with pytest.raises(OutputError):
            run(node.service().run())

    def test_later_it_is_tried_again(self) -> None:
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                node.place.failures = [OutputError("disk full")]
                node.source.gpus = [a_gpu(0), a_gpu(1)]
                await node.waits.pass_on()
                assert node.place.last("gpu.count") == "1"
                await node.waits.pass_on()
                assert node.place.last("gpu.count") == "2"

        run(work())

    def test_a_single_pass_waits_for_an_api_that_is_down(self) -> None:
        node = oneshot(Node(Source(), Place(failures=[self.DOWN, ApiError("GET /x", 503)])))

        async def work() -> None:
            task = asyncio.create_task(node.service().run())
            await node.waits.begun()
            await node.waits.pass_on()
            node.waits._next.set()
            await task

        run(work())
        assert node.waits.seconds == pytest.approx([0.8, 1.6])
        assert node.place.last("gpu.count") == "1"

    def test_but_not_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gpu_device_plugin.labels.service.ONESHOT_SECONDS", -1)
        node = Node(Source(), Place(failures=[self.DOWN]))

        with pytest.raises(ApiUnreachable):
            once(node)

    @pytest.mark.parametrize("failure", [FORBIDDEN, OutputError("read-only"), UserError("x")])
    def test_nor_for_what_waiting_does_not_mend(self, failure: UserError) -> None:
        with pytest.raises(type(failure)):
            once(Node(Source(), Place(failures=[failure])))

    def test_a_signal_ends_the_waiting(self) -> None:
        node = oneshot(Node(Source(), Place(failures=[self.DOWN] * 3)))

        async def work() -> None:
            async with node.running():
                pass

        run(work())
        assert node.place.got == []


def test_a_single_pass_that_misses_labels_publishes_the_rest_and_fails() -> None:
    node = Node(Source([a_gpu(0, compute_capability=None)]))

    with pytest.raises(HardwareError, match=r"not complete: no compute capability .* GPU 0"):
        once(node)
    assert node.place.last("gpu.count") == "1"


def test_a_mig_strategy_that_is_none_matters_once_there_is_a_gpu() -> None:
    config = flags(oneshot=True)
    config = replace(config, flags=replace(config.flags, mig_strategy="some"))
    run(Node(Source([]), config=config).service().run())

    with pytest.raises(ConfigError, match="mig-strategy"):
        run(Node(config=config).service().run())


def test_problems_are_logged_when_they_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reports = Reports()
    passes: Iterable[list[str]] = (["a", "b"], ["a", "b"], ["b", "c"], [])
    for problems in passes:
        reports.update(problems)

    assert [record.getMessage() for record in caplog.records] == [
        "a",
        "b",
        "c",
        "no longer: a",
        "no longer: b",
        "no longer: c",
    ]


def test_messages_that_repeat_pass_once_until_forgotten() -> None:
    said = SaidOnce()

    def passes(text: str) -> bool:
        return said.filter(logging.makeLogRecord({"msg": text}))

    assert [passes("a"), passes("a"), passes("b")] == [True, False, True]
    said.forget()
    assert passes("a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_signals_end_it(number: signal.Signals) -> None:
    node = Node(config=flags())

    async def work() -> None:
        async with node.running() as task:
            os.kill(os.getpid(), number)
            await task

    run(work())
    assert node.place.events == ["withdrawn", "closed"]


class TestTelling:
    """Each pass and each reload is told once."""

    MISSING = InitError("Driver Not Loaded")

    @staticmethod
    def passes(node: Node) -> list[tuple[Outcome, int, float | None]]:
        """What was told, without the times that passes took, which are some."""
        labelled = [told for told in node.told if isinstance(told, Labelled)]
        assert all(told.seconds > 0 for told in labelled)
        return [(told.outcome, told.labels, told.pause) for told in labelled]

    def test_passes_that_succeed(self) -> None:
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                await node.waits.pass_on()

        run(work())
        count = len(node.place.got[-1])
        assert self.passes(node) == [(Outcome.OK, count, 60), (Outcome.OK, count, 60)]

    def test_the_last_pass_of_all(self) -> None:
        node = Node()
        once(node)
        assert self.passes(node) == [(Outcome.OK, len(node.place.got[-1]), None)]

    def test_a_pass_whose_labels_cannot_be_published(self) -> None:
        node = Node(config=flags())
        node.place.failures = [ApiUnreachable("down")]

        async def work() -> None:
            async with node.running():
                await node.waits.pass_on()

        run(work())
        (failed, good) = self.passes(node)
        assert failed == (Outcome.FAILED, 0, node.waits.seconds[0])
        assert good[0] is Outcome.OK

    def test_a_single_pass_that_is_tried_twice(self) -> None:
        node = oneshot(Node())
        node.place.failures = [ApiUnreachable("down")]

        async def work() -> None:
            running = asyncio.create_task(node.service().run())
            await node.waits.begun()
            node.waits.end()
            await running

        run(work())
        assert [told[0] for told in self.passes(node)] == [Outcome.OK]

    def test_a_pass_without_a_driver_that_need_not_be_there(self) -> None:
        node = Node(Source(problem=self.MISSING), tolerant=True, config=flags())

        async def work() -> None:
            async with node.running():
                pass

        run(work())
        assert self.passes(node) == [(Outcome.REFUSED, len(node.place.got[-1]), 1)]

    def test_a_pass_that_ends_the_program(self) -> None:
        node = Node(Source(problem=self.MISSING), config=flags())
        with pytest.raises(InitError):
            run(node.service().run())
        assert self.passes(node) == [(Outcome.FAILED, 0, None)]

    def test_a_pass_that_could_not_make_all_labels(self) -> None:
        node = Node(Source([a_gpu(0, compute_capability=None)]), config=flags())

        async def work() -> None:
            async with node.running():
                pass

        run(work())
        assert self.passes(node) == [(Outcome.FAILED, len(node.place.got[-1]), 60)]

    def test_a_pass_that_is_cut_off_is_none(self) -> None:
        entered = asyncio.Event()

        class Hanging(Place):
            async def publish(self, labels: Mapping[str, str]) -> bool:
                entered.set()
                await asyncio.Event().wait()
                return bool(labels)

        node = Node(place=Hanging(), config=flags())

        async def work() -> None:
            running = asyncio.create_task(node.service().run())
            await entered.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            await running

        run(work())
        assert node.told == []

    @pytest.mark.parametrize("error", [None, ConfigError("line 3: it is wrong")])
    def test_reloads(self, error: UserError | None) -> None:
        node = Node(config=flags())

        async def work() -> None:
            async with node.running():
                if error is not None:
                    node.configuring.append(error)
                os.kill(os.getpid(), signal.SIGHUP)
                await node.waits.begun(2)

        run(work())
        reloads = [told for told in node.told if isinstance(told, Reloaded)]
        good, bad = Reloaded(Outcome.OK), Reloaded(Outcome.FAILED, str(error))
        assert reloads == [good if error is None else bad]
