"""The processes that are seen from here, by proc(5)."""

from __future__ import annotations

import os
from collections.abc import Iterator


def command_lines(proc: str = "/proc") -> Iterator[tuple[int, list[str]]]:
    """Number and arguments of every process that has any.

    Kernel threads and zombies have none; what vanishes meanwhile is left out.

    Args:
        proc: where proc is mounted.
    """
    for name in os.listdir(proc):
        if name.isdigit():
            try:
                with open(f"{proc}/{name}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if line:
                yield int(name), os.fsdecode(line).rstrip("\0").split("\0")
