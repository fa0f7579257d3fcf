"""What a program that was killed has left is put right."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.aio import run
from support.descriptors import no_descriptors
from support.mps import END, a_daemon

from gpu_device_plugin.mps import lock
from gpu_device_plugin.mps import remains as module
from gpu_device_plugin.mps.compute_mode import ComputeMode, SimulatedComputeModes
from gpu_device_plugin.mps.lock import UNSEEN
from gpu_device_plugin.mps.names import PIPE_VARIABLE, SERVER_PROGRAM, touch
from gpu_device_plugin.mps.remains import Remover, _is_stale, end_daemon, repair, server_pids


async def all_exclusive() -> SimulatedComputeModes:
    modes = SimulatedComputeModes()
    for gpu in ("GPU-0", "GPU-1", "GPU-2"):
        await modes.set(gpu, ComputeMode.EXCLUSIVE_PROCESS)
    return modes


def test_a_daemon_that_is_not_wanted_any_more_is_ended_and_its_gpus_set_back(tools):
    async def work():
        await tools.leave_behind(a_daemon())
        modes = await all_exclusive()
        await repair(str(tools.root), {}, tools.around().tool, modes, Remover())
        assert await modes.exclusive() == ()

    run(work())
    assert tools.daemon() is None
    assert not (tools.root / ".ready").exists()
    assert os.listdir(tools.files().directory) == ["pipe"]
    assert tools.journal() == END[:1]


def test_a_daemon_that_is_wanted_goes_on_until_it_is_started(tools):
    async def work():
        pid = await tools.leave_behind(a_daemon())
        modes = await all_exclusive()
        wanted = {a_daemon().resource: a_daemon()}
        await repair(str(tools.root), wanted, tools.around().tool, modes, Remover())
        assert await modes.exclusive() == ("GPU-0", "GPU-1")
        assert tools.daemon() == pid

    run(work())
    assert not (tools.root / ".ready").exists()


def test_after_an_orderly_end_there_is_nothing_to_put_right(tools):
    class Untouched(SimulatedComputeModes):
        async def exclusive(self) -> tuple[str, ...]:
            raise AssertionError("the driver is not to be touched")

    os.makedirs(tools.files().pipe)
    run(repair(str(tools.root), {}, tools.around().tool, Untouched(), Remover()))
    assert tools.journal() == []


def test_marks_of_a_daemon_that_is_dead_are_removed(tools):
    async def work():
        await tools.leave_behind(a_daemon())
        tools.kill_daemon()
        await repair(str(tools.root), {}, tools.around().tool, SimulatedComputeModes(), Remover())

    run(work())
    assert os.listdir(tools.files().directory) == ["pipe"]
    assert tools.journal() == []


def test_a_daemon_that_does_not_quit_is_killed(tools, monkeypatch, caplog):
    monkeypatch.setattr(module, "QUIT_SECONDS", 0.1)
    tools.turn("hang-quit")

    async def work():
        await tools.leave_behind(a_daemon())
        return await end_daemon(tools.around().tool, tools.files())

    assert run(work()) == []
    assert tools.daemon() is None
    assert "the daemon is killed" in caplog.text


def test_a_daemon_that_quits_too_slowly_is_killed(tools, monkeypatch):
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.05)
    tools.turn("ignore-quit")

    async def work():
        await tools.leave_behind(a_daemon())
        return await end_daemon(tools.around().tool, tools.files())

    assert run(work()) == []
    assert tools.daemon() is None


def test_a_daemon_out_of_view_that_stays_is_a_problem(tools, monkeypatch):
    os.makedirs(tools.files().pipe)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.01)
    for place in (module, lock):
        monkeypatch.setattr(place, "lock_holder", lambda _: UNSEEN)
    tools.turn("no-lock")
    (problem,) = run(end_daemon(tools.around().tool, tools.files()))
    assert "outside this container's view" in problem


def test_a_daemon_that_may_be_there_is_looked_after_and_told(tools):
    """Nothing but its lock is left, and who holds that cannot be seen."""
    files = tools.files()
    os.makedirs(files.pipe)
    os.symlink("control_lock", files.lock)
    assert _is_stale(files)
    (problem,) = run(end_daemon(tools.around().tool, files))
    assert problem == (
        f"an MPS daemon may still hold {files.lock}: Too many levels of symbolic links"
    )
    assert tools.journal() == END[:1]
    os.unlink(files.lock)


def test_without_a_descriptor_to_spare_an_end_tells_what_may_be_left(tools):
    async def work():
        await tools.leave_behind(a_daemon())
        with no_descriptors():
            problems = await end_daemon(tools.around().tool, tools.files())
        assert [problem.rpartition(": ")[2] for problem in problems] == ["Too many open files"] * 2
        assert await end_daemon(tools.around().tool, tools.files()) == []

    run(work())
    assert tools.daemon() is None


@contextmanager
def a_server(directory: Path, pipe: str):
    """A process called like NVIDIA's server, with that pipe directory."""
    link = directory / SERVER_PROGRAM
    if not link.is_symlink():
        link.symlink_to("/bin/sleep")
    with subprocess.Popen([str(link), "60"], env={PIPE_VARIABLE: pipe}) as process:
        try:
            yield process
        finally:
            process.kill()


def test_servers_of_a_daemon_that_was_killed_are_ended_and_no_others(tools, tmp_path):
    files = tools.files()
    os.makedirs(files.pipe)
    with a_server(tmp_path, files.pipe) as ours, a_server(tmp_path, f"{files.pipe}2") as other:
        assert list(server_pids(files)) == [ours.pid]
        assert run(end_daemon(tools.around().tool, files)) == []
        assert ours.wait(5) == -signal.SIGTERM
        assert other.poll() is None


def test_the_name_of_a_pipe_in_another_container_is_not_enough(tools, tmp_path):
    with a_server(tmp_path, tools.files().pipe):
        assert list(server_pids(tools.files())) == []  # there is no such directory here


def test_files_that_stay_are_told(tools, monkeypatch, caplog):
    files = tools.files()
    os.makedirs(os.path.join(files.log, "sub"))
    monkeypatch.setattr(os, "unlink", refuse)
    monkeypatch.setattr(shutil, "rmtree", lambda path, onerror: onerror(None, path, told()))
    touch(files.started)
    remover = Remover()
    remover.remove_files(files)
    assert ".started cannot be removed: Read-only" in caplog.text
    assert "log stays: " in caplog.text
    caplog.clear()
    remover.remove_files(files)
    assert not caplog.records, "said once, however often it is tried"
    monkeypatch.undo()
    remover.remove_files(files)
    assert not os.path.exists(files.started)
    os.makedirs(files.log)
    monkeypatch.setattr(shutil, "rmtree", lambda path, onerror: onerror(None, path, told()))
    remover.remove_files(files)
    assert "log stays: " in caplog.text, "it is news again"


def refuse(_: str) -> None:
    raise OSError(30, os.strerror(30))


def told() -> tuple[type, OSError, None]:
    return OSError, OSError(30, os.strerror(30)), None


def test_what_is_not_there_need_not_be_withdrawn(tmp_path, caplog):
    Remover().withdraw(str(tmp_path / "absent"))
    assert not caplog.records


def test_what_is_not_there_is_no_trouble_where_nothing_can_be_removed(
    tmp_path, monkeypatch, caplog
):
    """A read-only file system refuses before it looks."""
    monkeypatch.setattr(os, "unlink", refuse)
    Remover().withdraw(str(tmp_path / "absent"))
    assert not caplog.records


@pytest.mark.parametrize("knob", ["smi-fails"])
def test_trouble_while_repairing_is_told(tools, caplog, knob):
    class Stubborn(SimulatedComputeModes):
        async def set(self, gpu: str, mode: ComputeMode) -> None:
            if mode is ComputeMode.DEFAULT:
                await tools.around().modes.set(gpu, mode)
            await super().set(gpu, mode)

    async def work():
        await tools.leave_behind(a_daemon())
        tools.turn(knob)
        modes = Stubborn()
        await modes.set("GPU-0", ComputeMode.EXCLUSIVE_PROCESS)
        await repair(str(tools.root), {}, tools.around().tool, modes, Remover())
        await asyncio.sleep(0)

    run(work())
    assert "compute mode DEFAULT of GPU-0" in caplog.text
