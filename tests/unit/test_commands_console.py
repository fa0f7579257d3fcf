"""How commands of ``gpu-node`` end."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
