"""The programs as commands: run to their end, in an environment that decides nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RUN = "from gpu_device_plugin.programs.gpu_node import main; main()"
LIMIT = 60.0
"""Seconds after which a program has hung."""
OURS = ("GFD_", "GPU_NODE_", "NODE_NAME", "CONFIG_FILE", "MIG_STRATEGY", "FAIL_ON")
"""How variables begin that the programs read."""
OF_TERMINALS = ("COLUMNS", "NO_COLOR", "TERM")
ENVIRON = {
    key: value
    for key, value in os.environ.items()
    if not key.startswith(OURS) and key not in OF_TERMINALS
} | {"LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Done:
    """What a program has said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()

    @property
    def rows(self) -> list[list[str]]:
        """A table without its head, as words."""
        return [line.split() for line in self.out.splitlines()[1:]]


def run_program(
    code: str,
    *arguments: str | Path,
    stdin: str | None = None,
    environ: dict[str, str] | None = None,
) -> Done:
    """Runs a program; there never is a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=False,
        capture_output=True,
        encoding="utf-8",
        input=stdin,
        env=ENVIRON | (environ or {}),
        timeout=LIMIT,
    )
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def gpu_node(*arguments: str | Path, stdin: str | None = None, **environ: str) -> Done:
    """Runs ``gpu-node``; its messages are one line each."""
    done = run_program(RUN, *arguments, stdin=stdin, environ=environ)
    assert all(line.startswith(("error: ", "warning: ", "note: ")) for line in done.lines), done.err
    return done
