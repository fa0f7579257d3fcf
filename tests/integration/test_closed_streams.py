"""Programs that were started with standard streams closed, as ``>&-`` does it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = (
    "import os, sys\n"
    "for number in map(int, sys.argv.pop(1)): os.close(number)\n"
    # The interpreter itself must begin without them.
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
)
GPU_NODE = ["-c", "from gpu_device_plugin.programs.gpu_node import main; main()"]
PLUGIN = ["-c", "from gpu_device_plugin.programs.entry import device_plugin; device_plugin()"]
MANAGER = ["-c", "from gpu_device_plugin.programs.config_manager import main; main()"]
LOOK = (
    "import os; from gpu_device_plugin.programs.streams import fill_standard_streams; "
    "fill_standard_streams(); print(os.open('/', os.O_RDONLY), flush=True)"
)


def start(closed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", START, closed, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GPU_NODE_POD_RESOURCES_SOCKET": ""},
    )


@pytest.mark.parametrize(
    "command",
    [
        ["status", "--simulate=t4x4"],
        ["devices", "--simulate=t4x4"],
        ["explain", "--simulate=t4x4"],
        ["topology", "--simulate=t4x4"],
        ["doctor", "--simulate=t4x4"],
        ["completion", "bash"],
        ["validate", "-"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_without_a_stdout_says_that_it_cannot_write(command: list[str]) -> None:
    done = start("1", *GPU_NODE, *command)
    assert done.returncode in {1, 2}
    assert "error: standard output: cannot be written: Bad file descriptor" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_without_a_stderr_does_its_work() -> None:
    done = start("2", *GPU_NODE, "status", "--simulate=t4x4")
    assert done.returncode == 0
    assert "nvidia.com/gpu" in done.stdout


def test_nothing_is_read_from_a_stdin_that_is_closed() -> None:
    done = start("0", *GPU_NODE, "validate", "-")
    assert done.returncode == 1
    assert "error: <stdin>: nothing came" in done.stdout


def test_a_daemon_without_streams_ends_for_its_own_reasons() -> None:
    assert start("012", *PLUGIN, "--simulate=none-such").returncode == 1


def test_a_daemon_that_is_asked_for_its_version_does_not_mind_that_nobody_reads_it() -> None:
    for program in (PLUGIN, MANAGER):
        done = start("1", *program, "--version")
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["0", "02", "2"])
def test_what_is_opened_later_gets_none_of_their_numbers(closed: str) -> None:
    done = start(closed, "-c", LOOK)
    assert done.stdout.strip() == "3", done.stderr
