"""The process that reads the configuration is found, and told."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from gpu_device_plugin.watch.processes import Process, Signaller, boot_time, find_process

NAME = "nvidia-device-plugin"
STAT = "{pid} (odd ) name) S " + " ".join(["0"] * 18) + " {ticks} 0 0"


@pytest.fixture
def proc(tmp_path: Path):
    """Makes a /proc of command lines; None for one that cannot be read."""

    def make(*lines: str | None) -> str:
        (tmp_path / "self").mkdir()
        (tmp_path / "meminfo").touch()
        for number, line in enumerate(lines, 100000000):
            directory = tmp_path / str(number)
            directory.mkdir()
            (directory / "stat").write_text(STAT.format(pid=number, ticks=12345))
            if line is not None:
                (directory / "cmdline").write_text(line)
        return str(tmp_path)

    return make


def pid_of(name: str, proc: str) -> int | None:
    found = find_process(name, proc)
    return None if found is None else found.pid - 100000000


@pytest.mark.parametrize(
    "line",
    [
        f"{NAME}\0",
        f"{NAME}\0--mig-strategy=none\0",
        f"/usr/bin/{NAME}\0",
        f"/usr/bin/python3\0/usr/local/bin/{NAME}\0--x\0",
        f"python3.11\0-I\0-u\0/venv/bin/{NAME}\0",
    ],
)
def test_a_process_fits_by_argument_program_or_script(proc, line):
    assert pid_of(NAME, proc("sleep\0" + "60\0", line)) == 1


def test_a_path_fits_the_program_of_that_name(proc):
    assert pid_of("/usr/bin/mps-control-daemon", proc("mps-control-daemon\0")) == 0


@pytest.mark.parametrize(
    "line",
    [
        None,
        "",
        "\0",
        f"sh\0-c\0{NAME}\0",
        f"tail\0-f\0{NAME}\0",
        f"my-{NAME}\0",
        f"python3\0other\0{NAME}\0",
        "python3\0",
    ],
)
def test_others_do_not(proc, line):
    assert pid_of(NAME, proc(line)) is None


def test_the_best_fit_wins_then_the_first(proc):
    lines = ["", None, f"python3\0/bin/{NAME}\0", f"/bin/{NAME}\0", f"{NAME}\0", f"{NAME}\0"]
    listed = proc(*lines)
    first = min(os.listdir(listed).index(str(100000000 + n)) for n in (4, 5))
    assert pid_of(NAME, listed) == int(os.listdir(listed)[first]) - 100000000


def test_an_empty_name_fits_nobody(proc):
    assert pid_of("", proc("", "/\0", "\0a\0")) is None


def test_the_time_of_the_start_is_told(proc):
    found = find_process(NAME, proc(f"{NAME}\0"))
    assert found is not None
    assert found.started == pytest.approx(12345 / os.sysconf("SC_CLK_TCK"))


def test_a_process_that_vanishes_meanwhile_started_at_no_time(proc, tmp_path):
    listed = proc(f"{NAME}\0")
    (tmp_path / "100000000/stat").write_text("nonsense")
    assert find_process(NAME, listed) == Process(100000000, 0.0)


def test_a_real_process_is_found_while_others_come_and_go():
    name = f"target-{os.getpid()}"
    before = boot_time()
    with subprocess.Popen([name, "60"], executable="/bin/sleep") as target:
        try:
            for _ in range(20):
                subprocess.run(["/bin/true"], check=True)
                found = find_process(name)
                assert found is not None
                assert found.pid == target.pid
                assert before - 1 <= found.started <= boot_time()
        finally:
            target.kill()


def test_we_do_not_find_ourselves():
    with open("/proc/self/cmdline", encoding="utf-8") as file:
        own = file.read().split("\0")[0]
    found = find_process(own)
    assert found is None or found.pid != os.getpid()


class Recorder:
    def __init__(self, found: Process | None, error: OSError | None = None) -> None:
        self.sent: list[tuple[int, int]] = []
        self._found, self._error = found, error
        self.signaller = Signaller(NAME, 10, find=lambda _: self._found, kill=self._kill)

    def _kill(self, pid: int, number: int) -> None:
        if self._error is not None:
            raise self._error
        self.sent.append((pid, number))


def test_the_process_is_signalled():
    recorder = Recorder(Process(7, started=1.0))
    assert recorder.signaller.send(changed_at=2.0) == Process(7, 1.0)
    assert recorder.sent == [(7, 10)]


def test_one_that_began_after_the_change_is_left_alone():
    recorder = Recorder(Process(7, started=3.0))
    assert recorder.signaller.send(changed_at=2.0) == Process(7, 3.0)
    assert recorder.sent == []


@pytest.mark.parametrize(
    ("found", "error"),
    [(None, None), (Process(7, 1.0), ProcessLookupError())],
)
def test_nobody_is_told_if_there_is_no_process(found, error):
    assert Recorder(found, error).signaller.send(2.0) is None


def test_a_process_that_must_not_be_signalled_is_an_error():
    refused = PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    with pytest.raises(PermissionError):
        Recorder(Process(7, 1.0), refused).signaller.send(2.0)
