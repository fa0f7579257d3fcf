"""Finds the process that reads the configuration, and tells it of a change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from gpu_device_plugin.processes import command_lines

PROC = "/proc"
_START = 19
"""Position of the start time in ``/proc/PID/stat``, counted from behind the name (proc(5))."""


class Likeness(IntEnum):
    """How well a command line fits a name; the smaller the better."""

    EXACT = 0
    """The first argument is the name, as k8s-device-plugin v0.19.3 demands."""
    PROGRAM = 1
    """The first argument is a path of the same program."""
    SCRIPT = 2
    """It is an interpreter that runs a script of that name."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was found."""

    pid: int
    started: float
    """Seconds between the start of the system and its own."""


def find_process(name: str, proc: str = PROC) -> Process | None:
    """The process that fits a name best; of several the first, in the order of the directory.

    What vanishes while it is looked at, cannot be read, or has no command line is left out.
    """
    best: tuple[Likeness, int] | None = None
    for pid, arguments in command_lines(proc):
        likeness = _compare(name, arguments) if pid != os.getpid() else None
        if likeness is not None and (best is None or likeness < best[0]):
            best = likeness, pid
            if likeness is Likeness.EXACT:
                break
    if best is None:
        return None
    return Process(best[1], _start_time(proc, best[1]))


def boot_time() -> float:
    """Seconds since the start of the system, as `Process.started` counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Signaller:
    """Sends a signal to a process that is looked up by name each time."""

    name: str
    number: int
    find: Callable[[str], Process | None] = find_process
    kill: Callable[[int, int], None] = os.kill

    def send(self, changed_at: float) -> Process | None:
        """Tells the process of a change.

        One that was started after the change has read what is new already; it is left alone,
        all the more as a signal may end a process that is only just starting.

        Args:
            changed_at: when that was, by `boot_time`.

        Returns:
            The process that knows of the change now; None if there is none.

        Raises:
            OSError: it must not be signalled.
        """
        found = self.find(self.name)
        if found is None or found.started > changed_at:
            return found
        try:
            self.kill(found.pid, self.number)
        except ProcessLookupError:
            return None
        return found


def _compare(name: str, arguments: list[str]) -> Likeness | None:
    if not name:
        return None
    first, *rest = arguments
    base = os.path.basename(name)
    if first == name:
        return Likeness.EXACT
    if os.path.basename(first) == base:
        return Likeness.PROGRAM
    if os.path.basename(first).startswith("python"):
        script = next((argument for argument in rest if not argument.startswith("-")), "")
        if os.path.basename(script) == base:
            return Likeness.SCRIPT
    return None


def _start_time(proc: str, pid: int) -> float:
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[_START])
    except (OSError, ValueError, IndexError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")
