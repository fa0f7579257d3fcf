"""How commands of ``gpu-node`` end."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest

from gpu_device_plugin.programs.commands.console import ERASE_LINE, slow_note

REFUSED = "error: the operating system refuses:"
RUN = """
from gpu_device_plugin.programs.commands.console import run_command

def work():
    print("something")
    {rest}

raise SystemExit(run_command(work, failure=3))
"""


@pytest.mark.parametrize(
    ("rest", "output", "told"),
    [
        ("return 0", "/dev/full", "[Errno 28] No space left on device"),
        ("raise OSError(24, 'Too many', '/a.py')", "/dev/null", "[Errno 24] Too many: '/a.py'"),
    ],
)
def test_what_the_operating_system_refuses_is_one_line(rest: str, output: str, told: str) -> None:
    with open(output, "w", encoding="utf-8") as stdout:
        ended = subprocess.run(
            [sys.executable, "-c", RUN.format(rest=rest)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )

    assert ended.returncode == 3
    assert ended.stderr == f"{REFUSED} {told}\n"


class Terminal(io.StringIO):
    """A terminal that tells when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.written.set()


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not a fixture, as pytest puts its own stream there before each test begins."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    return made


def test_what_takes_long_is_told_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with slow_note("reading the GPUs", after=0):
        assert terminal.written.wait(10)

    assert terminal.getvalue() == f"reading the GPUs ...{ERASE_LINE}"


def test_what_is_quick_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    before = set(threading.enumerate())
    with slow_note("reading the GPUs", after=30):
        (started,) = set(threading.enumerate()) - before

    started.join(10)
    assert not started.is_alive()
    assert terminal.getvalue() == ""


def test_a_limit_of_threads_costs_the_note_only(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []

    with slow_note("reading the GPUs", after=0):
        done.append(True)

    assert done
    assert terminal.getvalue() == ""
