"""One daemon: start, take-over, death, end."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from dataclasses import replace

import pytest
from support.aio import run, until, within
from support.descriptors import no_descriptors
from support.mps import END, START, a_daemon

from gpu_device_plugin.mps import daemon as module
from gpu_device_plugin.mps import lock, processes
from gpu_device_plugin.mps.compute_mode import SimulatedComputeModes
from gpu_device_plugin.mps.daemon import MpsDaemon, StartFailed
from gpu_device_plugin.mps.lock import lock_holder
from gpu_device_plugin.mps.names import DaemonFiles
from gpu_device_plugin.mps.tool import ControlTool


def test_start_and_end_go_step_by_step(tools):
    files = tools.files()

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        assert tools.journal() == START
        assert daemon.pid == tools.daemon()
        for directory in (files.pipe, files.log):
            assert stat.S_IMODE(os.stat(directory).st_mode) == 0o755
        assert os.path.getsize(files.started) == 0
        assert await daemon.stop() == []

    run(work())
    assert tools.journal() == START + END
    assert tools.daemon() is None
    assert os.listdir(files.directory) == ["pipe"]


def test_an_end_without_a_start_does_nothing(tools):
    assert run(MpsDaemon(a_daemon(), tools.around()).stop()) == []
    assert tools.journal() == []


def test_the_log_is_passed_on_to_its_last_line(tools, caplog):
    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        await until(lambda: "Starting control daemon" in caplog.text)
        await daemon.stop()

    with caplog.at_level(logging.INFO):
        run(work())
    assert caplog.text.index("Starting control daemon") < caplog.text.index("Cmd:quit")


def test_a_death_is_noticed(tools):
    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        death = asyncio.create_task(daemon.wait_for_death())
        await asyncio.sleep(0)
        assert not death.done()
        tools.kill_daemon()
        await within(5, death)
        await daemon.stop()

    run(work())
    assert tools.journal() == START + END[1:]


def test_a_daemon_whose_process_is_out_of_view_is_watched_by_its_lock(tools, monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.01)

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        daemon.pid = 0
        death = asyncio.create_task(daemon.wait_for_death())
        tools.kill_daemon()
        await within(5, death)
        await daemon.stop()

    run(work())


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_daemon_whose_lock_cannot_be_opened_for_a_moment_lives_on(tools, monkeypatch, is_seen):
    """Whether its process is seen or not: without a descriptor to spare there is no pidfd either."""
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.002)
    monkeypatch.setattr(processes, "POLL_SECONDS", 0.002)
    looks = 0

    def look(files: DaemonFiles) -> int | None:
        nonlocal looks
        looks += 1
        return lock_holder(files)

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        if not is_seen:
            daemon.pid = 0
        for place in (module, lock):
            monkeypatch.setattr(place, "lock_holder", look)
        with no_descriptors():
            death = asyncio.create_task(daemon.wait_for_death())
            await until(lambda: death.done() or looks > 1)
            assert not death.done()
        tools.kill_daemon()
        await within(5, death)
        await daemon.stop()

    run(work())


def test_a_start_that_does_not_see_whether_there_is_a_daemon_fails(tools):
    os.makedirs(tools.files().pipe)
    os.symlink("control_lock", tools.files().lock)
    with pytest.raises(StartFailed, match="control_lock: Too many levels of symbolic links"):
        run(MpsDaemon(a_daemon(), tools.around()).start())
    os.unlink(tools.files().lock)


def test_a_daemon_without_a_lock_is_not_watched(tools, caplog):
    tools.turn("no-lock")

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        assert daemon.pid is None
        with pytest.raises(TimeoutError):
            await within(0.01, daemon.wait_for_death())
        await daemon.stop()

    run(work())
    assert "it is not watched, and its limits are not read back" in caplog.text
    assert tools.journal() == [line for line in START if " get_" not in line] + END


def test_a_daemon_that_ends_at_once_has_not_started(tools, monkeypatch):
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    tools.turn("dies")
    with pytest.raises(StartFailed, match=r"ended at once; .*control\.log may say why"):
        run(MpsDaemon(a_daemon(), tools.around()).start())


@pytest.mark.parametrize(
    ("knob", "message"),
    [
        ("smi-fails", "EXCLUSIVE_PROCESS of GPU-0: .* ended with 3, it says: told to fail"),
        ("fail--d", "-d ended with 1, it says: told to fail"),
        ("hang--d", r"-d: no answer within 0\.2 s"),
        ("hang-set_default_device_pinned_mem_limit", "no answer"),
        ("fail-set_default_active_thread_percentage", "told to fail"),
        ("ignore-set_default_device_pinned_mem_limit", "does not take the memory limit"),
        ("unknown-set_default_device_pinned_mem_limit", "too old"),
    ],
)
def test_a_start_that_fails_is_undone(tools, knob, message):
    tools.turn(knob)

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around(seconds=0.2))
        with pytest.raises(StartFailed, match=message):
            await daemon.start()
        assert not os.path.exists(daemon.files.started)
        tools.knobs.joinpath(knob).unlink()
        assert await daemon.stop() == []

    run(work())
    assert tools.daemon() is None
    assert tools.journal()[-1].endswith("-c DEFAULT")
    assert not os.path.exists(tools.files().log)


def test_a_missing_control_program_is_an_error(tools):
    around = replace(tools.around(), tool=ControlTool(str(tools.root / "absent")))
    with pytest.raises(StartFailed, match="absent is not found"):
        run(MpsDaemon(a_daemon(), around).start())


def test_a_root_that_cannot_be_written_to_is_an_error(tools):
    (tools.root / "nvidia.com").touch()
    with pytest.raises(StartFailed, match="Not a directory"):
        run(MpsDaemon(a_daemon(), tools.around()).start())


def test_a_start_that_is_cut_off_leaves_nothing(tools):
    tools.turn("hang-set_default_active_thread_percentage")

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around(seconds=60))
        start = asyncio.create_task(daemon.start())
        await until(lambda: START[-1] in tools.journal())
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        await daemon.stop()

    run(work())
    assert tools.daemon() is None
    assert tools.journal() == START + END


def test_a_living_daemon_with_the_right_limits_is_taken_over(tools):
    async def work():
        pid = await tools.leave_behind(a_daemon())
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        assert daemon.pid == pid == tools.daemon()
        await daemon.stop()
        assert tools.daemon() is None

    run(work())
    assert "control -d" not in tools.journal()
    assert not any(" set_" in line for line in tools.journal())


def test_a_living_daemon_with_other_limits_is_replaced(tools):
    async def work():
        pid = await tools.leave_behind(a_daemon())
        daemon = MpsDaemon(a_daemon(percentage=50), tools.around())
        await daemon.start()
        assert daemon.pid == tools.daemon() != pid
        await daemon.stop()

    run(work())
    later = tools.journal()
    assert later.index("control quit") < later.index("control -d")


def test_a_living_daemon_that_hangs_is_killed_and_replaced(tools, monkeypatch):
    monkeypatch.setattr("gpu_device_plugin.mps.remains.QUIT_SECONDS", 0.1)

    async def work():
        pid = await tools.leave_behind(a_daemon())
        tools.turn("hang-get_default_active_thread_percentage", "hang-quit")
        daemon = MpsDaemon(a_daemon(), tools.around(seconds=0.2))
        await daemon.start()
        assert daemon.pid == tools.daemon() != pid
        tools.turn_back("hang-quit")
        await daemon.stop()

    run(work())


def test_a_daemon_that_nobody_sees_is_told_to_quit_once_it_is_in_the_way(tools):
    refusals = tools.knobs / "refusals"
    refusals.touch()
    tools.control.write_text(f"""#!/bin/sh
echo "control $*" >> {tools.knobs}/journal
if [ "$1" = -d ]; then
  [ -e {refusals} ] && {{ echo "An instance of this daemon is already running"; exit 1; }}
  exit 0
fi
read -r line
case "$line" in quit*) rm -f {refusals};; esac
""")

    async def work():
        daemon = MpsDaemon(a_daemon(), tools.around())
        await daemon.start()
        await daemon.stop()

    run(work())
    assert tools.journal().count("control -d") == 2


def test_simulated_compute_modes_need_no_tool(tools):
    modes = SimulatedComputeModes()

    async def work():
        daemon = MpsDaemon(a_daemon(), replace(tools.around(), modes=modes))
        await daemon.start()
        assert await modes.exclusive() == ("GPU-0", "GPU-1")
        await daemon.stop()
        assert await modes.exclusive() == ()

    run(work())
    assert not any(line.startswith("smi") for line in tools.journal())
