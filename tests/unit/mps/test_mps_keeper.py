"""A daemon is kept alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.aio import run, until
from support.mps import MpsTools, a_daemon

from gpu_device_plugin.mps import keeper as module
from gpu_device_plugin.mps.daemon import MpsDaemon
from gpu_device_plugin.mps.keeper import DaemonKeeper
from gpu_device_plugin.telemetry import DaemonStarted, Happening, Outcome


class Kept:
    def __init__(self, keeper: DaemonKeeper, changed: asyncio.Event, told: list[Happening]) -> None:
        self.keeper = keeper
        self.told = told
        self._changed = changed

    async def until_up(self, up: bool = True) -> None:
        async with asyncio.timeout(10):
            while self.keeper.is_up is not up:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def kept(tools: MpsTools) -> AsyncIterator[Kept]:
    changed, told = asyncio.Event(), list[Happening]()
    keeper = DaemonKeeper(a_daemon(), tools.around(seconds=1), changed.set, tell=told.append)
    keeper.start()
    try:
        yield Kept(keeper, changed, told)
    finally:
        assert await keeper.stop() == []
        assert not keeper.is_up


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.02)


@pytest.mark.usefixtures("short_pauses")
def test_a_daemon_that_dies_is_withdrawn_and_started_again(tools, caplog):
    async def work():
        async with kept(tools) as it:
            await it.until_up()
            pid = tools.daemon()
            tools.kill_daemon()
            await it.until_up(False)
            await it.until_up()
            assert tools.daemon() not in {None, pid}

    run(work())
    assert "the MPS daemon has died" in caplog.text
    assert tools.daemon() is None


@pytest.mark.usefixtures("short_pauses")
def test_a_daemon_that_cannot_be_started_is_tried_again(tools, caplog):
    tools.turn("fail--d")

    async def work():
        async with kept(tools) as it:
            await until(lambda: caplog.text.count("cannot be started") > 1)
            assert not it.keeper.is_up
            tools.turn_back("fail--d")
            await it.until_up()

    run(work())


def test_pauses_double_up_to_a_limit_and_begin_anew_after_a_steady_life(tools, monkeypatch, caplog):
    moments = iter([0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 100.0, 100.0])
    pauses: list[float] = []
    enough = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            enough.set()
            await asyncio.get_running_loop().create_future()

    async def nothing(_: MpsDaemon) -> None:
        pass

    monkeypatch.setattr(MpsDaemon, "start", nothing)
    monkeypatch.setattr(MpsDaemon, "wait_for_death", nothing)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 4.0)

    async def work():
        keeper = DaemonKeeper(
            a_daemon(), tools.around(), lambda: None, clock=lambda: next(moments), pause=pause
        )
        keeper.start()
        await enough.wait()
        await keeper.stop()

    with caplog.at_level(logging.ERROR):
        run(work())
    assert pauses == [1.0, 2.0, 4.0, 4.0, 1.0]


@pytest.mark.usefixtures("short_pauses")
def test_a_programming_error_is_logged_and_the_daemon_tried_again(tools, monkeypatch, caplog):
    real_start, calls = MpsDaemon.start, []

    async def start(self: MpsDaemon) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise ZeroDivisionError
        await real_start(self)

    monkeypatch.setattr(MpsDaemon, "start", start)

    async def work():
        async with kept(tools) as it:
            await it.until_up()

    run(work())
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.usefixtures("short_pauses")
def test_what_cannot_be_undone_is_told(tools, caplog):
    tools.turn("fail--d")

    async def work():
        changed = asyncio.Event()
        keeper = DaemonKeeper(a_daemon(), tools.around(), changed.set)
        keeper.start()
        await until(lambda: "control -d" in tools.journal())
        tools.turn("smi-fails")
        await until(lambda: "compute mode DEFAULT of GPU-1" in caplog.text)
        assert len(await keeper.stop()) in {0, 1}

    run(work())


def test_an_end_reports_what_is_left(tools):
    async def work():
        changed = asyncio.Event()
        keeper = DaemonKeeper(a_daemon(), tools.around(), changed.set)
        keeper.start()
        await changed.wait()
        tools.turn("smi-fails")
        return await keeper.stop()

    problems = run(work())
    assert [problem.split(":")[0] for problem in problems] == [
        "compute mode DEFAULT of GPU-0",
        "compute mode DEFAULT of GPU-1",
    ]


STARTED = DaemonStarted("nvidia.com/gpu", Outcome.OK)
NOT_STARTED = DaemonStarted("nvidia.com/gpu", Outcome.FAILED)


@pytest.mark.usefixtures("short_pauses")
def test_each_start_is_told_and_the_death_of_a_daemon_is_none(tools):
    async def work():
        async with kept(tools) as it:
            await it.until_up()
            assert it.told == [STARTED]
            assert it.keeper.problem == ""
            tools.kill_daemon()
            await it.until_up(False)
            assert it.told == [STARTED]
            await until(lambda: "has died" in it.keeper.problem)
            await it.until_up()
            assert it.told == [STARTED, STARTED]
            assert it.keeper.problem == ""
        assert it.told == [STARTED, STARTED], "its end is none either"

    run(work())


@pytest.mark.usefixtures("short_pauses")
def test_each_start_that_fails_is_told(tools):
    tools.turn("fail--d")

    async def work():
        async with kept(tools) as it:
            await until(lambda: len(it.told) == 2)
            assert "cannot be started" in it.keeper.problem
            tools.turn_back("fail--d")
            await it.until_up()
            failures = it.told[:-1]
            assert failures == [NOT_STARTED] * len(failures)
            assert it.told[-1] == STARTED

    run(work())


@pytest.mark.usefixtures("short_pauses")
def test_a_start_that_fails_by_a_programming_error_is_told_as_one_that_failed(tools, monkeypatch):
    async def start(_: MpsDaemon) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(MpsDaemon, "start", start)

    async def work():
        async with kept(tools) as it:
            await until(lambda: len(it.told) > 1)
            assert set(it.told) == {NOT_STARTED}
            assert "the log has it" in it.keeper.problem

    run(work())


def test_a_start_that_is_cut_off_is_not_told(tools, monkeypatch):
    entered = asyncio.Event()

    async def start(_: MpsDaemon) -> None:
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(MpsDaemon, "start", start)

    async def work():
        async with kept(tools) as it:
            await entered.wait()
        assert it.told == []

    run(work())
