"""``gpu-node demo`` with the real plugin program behind it."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.watchdog import limited

from gpu_device_plugin.programs import gpu_node
from gpu_device_plugin.simulation.demo import process as plugin_process
from gpu_device_plugin.simulation.demo import script, theatre
from gpu_device_plugin.simulation.demo.demo import run_demo
from gpu_device_plugin.simulation.demo.script import ACTS

COMMAND = [sys.executable, "-c", "from gpu_device_plugin.programs.gpu_node import main; main()"]
TAKE_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
"""So that a Ctrl-C in a pseudo-terminal becomes a signal."""
LIMIT = 30.0
"""Seconds after which the demonstration has hung."""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where the demonstration has its files; nothing may be left there."""
    # pytest's own directories have names too long for a socket.
    with tempfile.TemporaryDirectory(prefix="demo-") as path:
        yield Path(path)
        assert not list(Path(path).iterdir())
        assert not processes_of(path)


def processes_of(directory: str) -> list[str]:
    """The processes that work there, by their environment."""
    found = list[str]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={directory}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder.name)
    return found


def environment(directory: Path, **more: str) -> dict[str, str]:
    environ = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM"}}
    # What is set here for the plugin is not meant for the one of the demonstration.
    return environ | {"TMPDIR": str(directory), "CONFIG_FILE": "/none", "LC_ALL": "C.UTF-8"} | more


@contextmanager
def started(
    directory: Path, *arguments: str, stderr: int = subprocess.STDOUT
) -> Iterator[subprocess.Popen[str]]:
    """The demonstration, without a terminal."""
    with (
        subprocess.Popen(
            [*COMMAND, "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
            env=environment(directory),
        ) as process,
        limited(process),
    ):
        yield process


def test_without_a_terminal_it_prints_plain_lines(directory: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "demo"],
        check=False,
        capture_output=True,
        encoding="utf-8",
        env=environment(directory, TERM="xterm"),
        timeout=LIMIT,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    assert "\x1b" not in done.stdout
    assert str(directory) not in done.stdout
    for number, act in enumerate(ACTS, 1):
        assert f"{number}/{len(ACTS)}  {act.title}" in done.stdout
    assert f"All {len(ACTS)} acts came out as they should" in done.stdout


def in_terminal(directory: Path, *arguments: str, interrupt_at: bytes = b"") -> tuple[int, bytes]:
    """Runs it in a pseudo-terminal; exit code and all that it wrote."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    before = termios.tcgetattr(follower)
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL + COMMAND[2], "demo", *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment(directory, TERM="xterm-256color"),
        start_new_session=True,
    )
    seen, deadline = b"", time.monotonic() + LIMIT
    while process.poll() is None or select.select([leader], [], [], 0)[0]:
        assert time.monotonic() < deadline, seen[-2000:]
        if select.select([leader], [], [], 0.05)[0]:
            seen += os.read(leader, 65536)
        if interrupt_at and interrupt_at in seen:
            os.write(leader, b"\x03")
            interrupt_at = b""
    after = termios.tcgetattr(follower)
    os.close(leader)
    os.close(follower)
    assert after[:4] == before[:4]
    return process.returncode, seen


def test_on_a_terminal_it_draws_and_leaves_the_terminal_as_it_was(directory: Path) -> None:
    code, seen = in_terminal(directory, "--speed", "20")

    assert code == 0, seen
    assert seen.count(b"\x1b[?1049h") == seen.count(b"\x1b[?1049l") == 1
    assert seen.count(b"\x1b[?25l") == seen.count(b"\x1b[?25h") == 1
    _, _, rest = seen.partition(b"\x1b[?1049l")
    assert f"All {len(ACTS)} acts came out as they should".encode() in rest
    assert "✖ XID 79".encode() in seen


def test_ctrl_c_ends_it_without_a_trace(directory: Path) -> None:
    code, seen = in_terminal(directory, interrupt_at=b"8 devices, all healthy")

    assert code == 0
    assert seen.endswith(b"\x1b[?1049l")
    assert b"Traceback" not in seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_without_a_trace(directory: Path, number: signal.Signals) -> None:
    with started(directory, "--speed", "1") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "8 devices, all healthy" in line:
                process.send_signal(number)
                break
        rest = process.stdout.read()
        assert process.wait(LIMIT) == 128 + number
    assert "Traceback" not in rest


def test_the_plugin_does_not_outlive_a_killed_demonstration(directory: Path) -> None:
    with started(directory, "--speed", "1") as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "8 devices, all healthy" in line)
        assert len(processes_of(str(directory))) == 2
        process.kill()
    deadline = time.monotonic() + LIMIT
    while processes_of(str(directory)):
        assert time.monotonic() < deadline
        time.sleep(0.01)  # nothing announces the end of a grandchild
    for left in directory.iterdir():
        shutil.rmtree(left)


def test_a_reader_that_goes_away_does_not_matter(directory: Path) -> None:
    with started(directory, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(LIMIT) == 0


def test_a_plugin_that_ends_fails_the_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugin_process, "PROGRAM", "raise SystemExit(3)")
    out = io.StringIO()

    assert run_demo(stream=out) == 1
    reason = capsys.readouterr().err
    assert reason.startswith("gpu-node demo: act 1, 'The plugin starts and registers': 8 GPUs are")
    assert "the plugin has ended with code 3" in reason
    assert reason.count("\n") == 1


def test_what_does_not_come_out_fails_the_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "REPLICAS", 3)
    monkeypatch.setattr(theatre, "LIMIT", 3.0)

    assert run_demo(stream=io.StringIO()) == 1
    assert "act 5, 'Sharing is switched on': 24 replicas instead of 8 GPUs: not within" in (
        capsys.readouterr().err
    )


def test_the_program_has_help_a_version_and_exit_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_node, "leave", sys.exit)  # this process does not end
    for arguments, code, out, err in (
        (["--version"], 0, "gpu-node version v", ""),
        (["--help"], 0, "watch the plugin at work on a simulated DGX", ""),
        (["demo", "--help"], 0, "--speed N", ""),
        ([], 2, "", "usage: gpu-node"),
        (["explode"], 2, "", "invalid choice: 'explode'"),
        (["demo", "--speed", "-1"], 2, "", "'-1' is not a number from 0 to 100"),
    ):
        with pytest.raises(SystemExit) as end:
            gpu_node.main(arguments)
        printed = capsys.readouterr()
        assert end.value.code == code
        assert out in printed.out
        assert err in printed.err


def test_page_and_metrics_are_served_meanwhile(directory: Path) -> None:
    with started(directory, "--speed", "1") as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "the page: " in line)
        url = line.split("the page: ")[1].split(",")[0]
        with urllib.request.urlopen(f"{url}metrics", timeout=LIMIT) as answer:
            assert b"# HELP" in answer.read()
        with urllib.request.urlopen(f"{url}livez", timeout=LIMIT) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)


def test_the_page_can_be_left_out_and_an_address_must_be_one(directory: Path) -> None:
    out = io.StringIO()
    # The directory's check is for the programs; this one runs here.
    assert run_demo(0, out, page_address="") == 0
    assert "the page: " not in out.getvalue()

    done = subprocess.run(
        [*COMMAND, "demo", "--metrics-address=here"],
        check=False,
        capture_output=True,
        text=True,
        env=environment(directory),
        timeout=LIMIT,
    )
    assert done.returncode == 2
    assert "'here' cannot be listened at" in done.stderr
