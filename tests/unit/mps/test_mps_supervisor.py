"""The life of the program: readiness, reloads, end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.aio import run, until
from support.mps import END, START, MpsTools, a_daemon

from gpu_device_plugin.errors import ConfigError, HardwareError, UserError
from gpu_device_plugin.mps import supervisor as module
from gpu_device_plugin.mps.supervisor import DaemonState, MpsSupervisor, Wanted
from gpu_device_plugin.status.of_mps import mps_readiness
from gpu_device_plugin.telemetry import DaemonStarted, Happening, Outcome, Reloaded


class Life:
    """A supervisor that runs, and what it is told to want."""

    def __init__(self, tools: MpsTools, *daemons) -> None:
        self.tools = tools
        self.wanted: Wanted | UserError = Wanted(daemons)
        self.reads = 0
        self.told: list[Happening] = []
        self.supervisor = MpsSupervisor(self.read, tools.around(), self.told.append)

    def read(self) -> Wanted:
        self.reads += 1
        if isinstance(self.wanted, UserError):
            raise self.wanted
        return self.wanted

    @property
    def is_ready(self) -> bool:
        return (self.tools.root / ".ready").exists()

    async def ready(self) -> None:
        await until(lambda: self.is_ready)

    async def reload(self, wanted: Wanted | UserError) -> None:
        self.wanted, before = wanted, self.reads
        self.supervisor.reload()
        await until(lambda: self.reads > before)


@asynccontextmanager
async def living(tools: MpsTools, *daemons) -> AsyncIterator[Life]:
    life = Life(tools, *daemons)
    task = asyncio.create_task(life.supervisor.run())
    try:
        yield life
    finally:
        life.supervisor.stop()
        await task
    assert not life.is_ready
    assert not tools.daemon()


def test_it_is_ready_when_the_daemon_runs_and_leaves_nothing(tools):
    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            assert (tools.root / "nvidia.com/gpu/.started").exists()

    run(work())
    assert tools.journal() == START + END


def test_without_daemons_it_is_ready_at_once(tools, caplog):
    async def work():
        async with living(tools) as life:
            await life.ready()

    with caplog.at_level(logging.INFO):
        run(work())
    assert "no MPS daemon is needed" in caplog.text
    assert tools.journal() == []


def test_it_is_not_ready_while_a_daemon_is_dead(tools, monkeypatch):
    monkeypatch.setattr("gpu_device_plugin.mps.keeper.FIRST_PAUSE", 0.01)

    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            tools.turn("fail--d")
            tools.kill_daemon()
            await until(lambda: not life.is_ready)
            assert not (tools.root / "nvidia.com/gpu/.started").exists()
            tools.turn_back("fail--d")
            await life.ready()

    run(work())


def test_readiness_needs_every_daemon(tools):
    async def work():
        other = a_daemon("nvidia.com/other")
        async with living(tools, a_daemon(), other) as life:
            await life.ready()
            assert tools.daemon()
            assert tools.daemon("nvidia.com/other")
            await life.reload(Wanted((other,)))
            await until(lambda: not tools.daemon())
            await life.ready()
            assert tools.daemon("nvidia.com/other")

    run(work())


def test_a_reload_replaces_a_daemon_that_changes(tools):
    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            pid = tools.daemon()
            await life.reload(Wanted((a_daemon(percentage=50),)))
            await until(lambda: tools.daemon() not in {None, pid} and life.is_ready)

    run(work())
    assert tools.journal()[len(START) :][:4] == [*END, START[0]]


def test_a_reload_that_changes_nothing_leaves_daemon_and_clients_alone(tools, caplog):
    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            pid = tools.daemon()
            await life.reload(Wanted((a_daemon(),)))
            await until(lambda: "nothing changes" in caplog.text)
            assert life.is_ready
            assert tools.daemon() == pid

    with caplog.at_level(logging.INFO):
        run(work())
    assert tools.journal() == START + END


@pytest.mark.parametrize(
    "trouble",
    [ConfigError("replicas is wrong"), HardwareError("no"), Wanted(problem="no driver")],
)
def test_a_reload_that_fails_keeps_the_last_good_configuration(tools, caplog, trouble):
    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            pid = tools.daemon()
            await life.reload(trouble)
            await until(lambda: "stays in force" in caplog.text or "go on" in caplog.text)
            assert life.is_ready
            await life.reload(Wanted((a_daemon(percentage=10),)))
            await until(lambda: tools.daemon() not in {None, pid} and life.is_ready)

    run(work())


def test_many_reloads_at_once_come_to_rest(tools):
    async def work():
        async with living(tools, a_daemon()) as life:
            for percentage in (50, 33, 20, 10):
                life.wanted = Wanted((a_daemon(percentage=percentage),))
                life.supervisor.reload()
                await asyncio.sleep(0)
            await until(
                lambda: "control set_default_active_thread_percentage 10" in tools.journal()
            )
            await life.ready()

    run(work())


def test_a_first_configuration_that_cannot_be_used_ends_the_program(tools):
    async def work():
        life = Life(tools)
        life.wanted = ConfigError("replicas is wrong")
        with pytest.raises(ConfigError, match="replicas is wrong"):
            await life.supervisor.run()

    run(work())


def test_a_driver_that_may_be_waited_for_is_tried_again(tools, monkeypatch, caplog):
    monkeypatch.setattr(module, "DRIVER_RETRY_SECONDS", 0.01)

    async def work():
        life = Life(tools)
        life.wanted = Wanted(problem="cannot initialise NVML")
        task = asyncio.create_task(life.supervisor.run())
        await until(lambda: life.reads > 3)
        assert not life.is_ready
        life.wanted = Wanted((a_daemon(),))
        await life.ready()
        life.supervisor.stop()
        await task

    run(work())
    assert caplog.text.count("cannot initialise NVML") == 1


def test_a_stop_during_a_start_that_hangs_ends_everything(tools):
    tools.turn("hang--d")

    async def work():
        async with living(tools, a_daemon()):
            await until(lambda: "control -d" in tools.journal())

    run(work())
    assert tools.journal()[-1].endswith("-c DEFAULT")


def test_a_compute_mode_that_cannot_be_set_back_is_an_error(tools):
    async def work():
        life = Life(tools, a_daemon())
        task = asyncio.create_task(life.supervisor.run())
        await life.ready()
        tools.turn("smi-fails")
        life.supervisor.stop()
        with pytest.raises(UserError, match="at the end: compute mode DEFAULT of GPU-0"):
            await task

    run(work())


def test_a_root_that_cannot_be_written_to_is_named(tools):
    async def work():
        life = Life(tools)
        os.rmdir(tools.root)
        with pytest.raises(ConfigError, match=r"\.ready cannot be made: No such file"):
            await life.supervisor.run()

    run(work())


def test_a_mark_that_cannot_be_made_for_now_ends_no_daemon(tools, monkeypatch, caplog):
    monkeypatch.setattr(module, "MARK_RETRY_SECONDS", 0.01)
    caplog.set_level(logging.INFO)
    other = a_daemon("nvidia.com/other")
    mark = tools.root / ".ready"

    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            pid = tools.daemon()
            mark.unlink()
            mark.mkdir()  # what cannot be removed and made
            await life.reload(Wanted((a_daemon(), other)))
            await until(lambda: life.supervisor.mark_problem != "")
            assert not life.supervisor.is_ready
            check = mps_readiness(life.supervisor)
            assert ".ready cannot be made: Is a directory" in str(check)
            await until(lambda: caplog.text.count("trying again") == 1)
            mark.rmdir()
            await until(mark.is_file)
            assert life.supervisor.mark_problem == ""
            assert tools.daemon() == pid

    run(work())
    assert caplog.text.count(".ready cannot be made") == 1
    assert caplog.text.count(".ready cannot be removed") == 1


def test_a_reload_is_not_lost_in_the_moment_in_which_a_mark_is_tried_again(tools, monkeypatch):
    monkeypatch.setattr(module, "MARK_RETRY_SECONDS", 0)  # so that every moment is such a one
    mark = tools.root / ".ready"

    async def work():
        async with living(tools) as life:
            await life.ready()
            mark.unlink()
            mark.mkdir()
            await life.reload(Wanted((a_daemon(),)))
            await until(lambda: life.supervisor.mark_problem != "")
            await life.reload(Wanted())
            mark.rmdir()
            await life.ready()

    run(work())


def test_a_programming_error_cleans_up_and_shows_itself(tools, monkeypatch):
    async def work():
        life = Life(tools, a_daemon())
        task = asyncio.create_task(life.supervisor.run())
        await life.ready()
        monkeypatch.setattr(MpsSupervisor, "_show_readiness", lambda _: 1 / 0)
        await life.reload(Wanted())
        with pytest.raises(ZeroDivisionError):
            await task

    run(work())
    assert tools.daemon() is None


STARTED = DaemonStarted("nvidia.com/gpu", Outcome.OK)


def test_starts_and_reloads_are_told(tools):
    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            assert life.told == [STARTED]
            await life.reload(Wanted((a_daemon(percentage=50),)))
            await until(lambda: len(life.told) == 3)
            assert sorted(map(str, life.told[1:])) == sorted(
                map(str, [Reloaded(Outcome.OK), STARTED])
            )

    run(work())


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (ConfigError("replicas is wrong"), "replicas is wrong"),
        (Wanted(problem="no driver"), "no driver"),
    ],
)
def test_a_reload_that_fails_is_told_with_its_reason(tools, trouble, error):
    async def work():
        async with living(tools, a_daemon()) as life:
            await life.ready()
            await life.reload(trouble)
            await until(lambda: len(life.told) > 1)
            assert life.told == [STARTED, Reloaded(Outcome.FAILED, error)]

    run(work())


def test_looks_for_a_driver_are_no_reloads_until_it_is_there(tools, monkeypatch):
    monkeypatch.setattr(module, "DRIVER_RETRY_SECONDS", 0.01)

    async def work():
        life = Life(tools)
        life.wanted = Wanted(problem="cannot initialise NVML")
        task = asyncio.create_task(life.supervisor.run())
        await until(lambda: life.reads > 3)
        assert life.told == []
        assert life.supervisor.observe() == ()
        life.wanted = Wanted((a_daemon(),))
        await life.ready()
        assert sorted(map(str, life.told)) == sorted(map(str, [Reloaded(Outcome.OK), STARTED]))
        life.supervisor.stop()
        await task

    run(work())


def test_how_daemons_are_doing_can_be_seen(tools):
    tools.turn("fail--d")

    async def work():
        async with living(tools, a_daemon()) as life:
            await until(lambda: any(each.problem for each in life.supervisor.observe()))
            (state,) = life.supervisor.observe()
            assert (state.resource, state.is_up) == ("nvidia.com/gpu", False)
            assert "cannot be started" in state.problem
            tools.turn_back("fail--d")
            await life.ready()
            assert life.supervisor.observe() == (DaemonState("nvidia.com/gpu", True, ""),)

    run(work())
