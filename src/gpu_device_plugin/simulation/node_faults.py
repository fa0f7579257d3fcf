"""Faults for a running simulated node: lines of its events file, checked before they are written."""

from __future__ import annotations

import os

from gpu_device_plugin.errors import UsageError, UserError
from gpu_device_plugin.hardware.simulated.events import USAGE, Action, parse_line
from gpu_device_plugin.hardware.simulated.node import SimulatedNode
from gpu_device_plugin.hardware.simulated.profile import load_profile

AT_ONCE = {
    Action.XID,
    Action.UNMONITORABLE,
    Action.MONITOR_ERROR,
    Action.MONITOR_OK,
}
"""The others are seen at the next read."""


def check_fault(line: str, profile: str) -> Action:
    """What a line does to a node.

    Args:
        line: as `hardware.simulated.events` has them.
        profile: of the node.

    Raises:
        UsageError: the line cannot be understood, or the node has no such GPU or layout.
    """
    try:
        instruction = parse_line(line) if "\n" not in line else None
        if instruction is None:
            raise UsageError("a fault is one line", "allowed: " + ", ".join(USAGE.values()))
        SimulatedNode(load_profile(profile)).apply(instruction)
    except UserError as error:
        raise UsageError(f"--fault: {error.message}", error.hint) from None
    return instruction.action


def append_fault(line: str, path: str) -> None:
    """Adds a line to an events file in one write, so that nobody sees half of it.

    Raises:
        OSError: it cannot be written.
    """
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{line.strip()}\n".encode())
    finally:
        os.close(fd)
