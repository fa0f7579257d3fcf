"""Running, awaiting and ending processes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess

import pytest
from support.aio import run, until, within

from gpu_device_plugin.mps import processes as module
from gpu_device_plugin.mps.processes import (
    NotInTime,
    Outcome,
    end_processes,
    find_program,
    is_alive,
    run_process,
    wait_for_end,
)
from gpu_device_plugin.processes import command_lines


def sh(text: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", text)


def children_of(marker: str) -> list[int]:
    return [pid for pid, arguments in command_lines() if marker in arguments]


def test_output_errors_and_exit_code_come_back():
    outcome = run(run_process(sh("cat; echo out; echo err >&2; exit 3"), limit=5, text="given "))
    assert outcome == Outcome(3, "given out\n", "err\n")
    assert outcome.text == "given out / err"


def test_nothing_but_the_given_environment_is_passed_on():
    outcome = run(run_process(("/usr/bin/env",), limit=5, env={"A": "1"}))
    assert outcome.output == "A=1\n"


def test_a_daemon_that_keeps_its_output_open_holds_up_nobody():
    outcome = run(within(5, run_process(sh("sleep 30 & echo $!"), limit=20)))
    os.kill(int(outcome.output), signal.SIGKILL)


def test_what_takes_too_long_is_killed_with_all_it_has_started():
    marker = f"marker-{os.getpid()}-limit"

    async def work():
        with pytest.raises(NotInTime, match=r"sh took more than 0\.05 s"):
            await run_process(sh(f"sh -c 'sleep 60' {marker} & wait"), limit=0.05)
        await until(lambda: not children_of(marker))

    run(work())


def test_cancelling_kills():
    marker = f"marker-{os.getpid()}-cancel"

    async def work():
        task = asyncio.create_task(run_process(sh(f"sh -c 'sleep 60' {marker} & wait"), limit=60))
        await until(lambda: bool(children_of(marker)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not children_of(marker))

    run(work())


def test_what_cannot_be_run_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        run(run_process((str(tmp_path / "absent"),), limit=5))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_without_pidfd_processes_are_looked_at(monkeypatch, number):
    def refuse(_: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    assert run(run_process(sh("exit 7"), limit=5)).exit_code == 7


def test_the_end_of_a_process_that_is_gone_needs_no_waiting():
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    run(wait_for_end(child.pid, lambda: pytest.fail("not asked")))
    assert not is_alive(child.pid)


def test_a_zombie_is_not_alive():
    child = subprocess.Popen(["/bin/true"])

    async def work():
        await until(lambda: not is_alive(child.pid))

    run(work())
    child.wait()


@pytest.mark.parametrize(
    ("trap", "code"), [("", -signal.SIGTERM), ("trap '' TERM;", -signal.SIGKILL)]
)
def test_processes_are_asked_then_killed(trap, code):
    child = subprocess.Popen(sh(f"{trap} echo; while :; do sleep 1; done"), stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    assert run(end_processes([child.pid, 2**22 - 1], grace=0.05)) == ()
    assert child.wait() == code
    child.stdout.close()


def test_a_process_that_must_not_be_ended_is_told(monkeypatch, caplog):
    def refuse(*_: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(module, "KILL_SECONDS", 0.01)
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", refuse)
            left = run(end_processes([child.pid], grace=0.01))
        child.kill()
    assert left == (child.pid,)
    assert "not permitted" in caplog.text


def test_programs_are_found_as_a_shell_finds_them(tmp_path, monkeypatch):
    (tmp_path / "plain").touch()
    (tmp_path / "directory").mkdir()
    program = tmp_path / "program"
    program.touch(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/nowhere:{tmp_path}")
    assert find_program("program") == str(program)
    assert find_program(str(program)) == str(program)
    assert find_program("plain") is None
    assert find_program("directory") is None
    assert find_program(str(tmp_path / "absent")) is None
