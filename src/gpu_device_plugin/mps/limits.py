"""Limits of a running daemon: setting them, reading them back, and what its log tells of them."""

from __future__ import annotations

import os
import re

from gpu_device_plugin.mps.names import DaemonFiles
from gpu_device_plugin.mps.plan import DaemonSpec
from gpu_device_plugin.mps.tool import (
    ControlTool,
    ToolError,
    shows_memory_limit,
    shows_percentage,
)

_START = b"Starting control daemon"
_TOLD = re.compile(rb"Cmd:set_default_device_pinned_mem_limit (\S+) (\S+)")


class LimitRefused(ToolError):
    """The daemon took a limit without an error, and has another one all the same."""


async def set_limits(
    tool: ControlTool, files: DaemonFiles, spec: DaemonSpec, *, verify: bool
) -> None:
    """Tells a daemon its limits.

    Args:
        tool: the control program.
        files: those of the daemon.
        spec: what the limits shall be.
        verify: whether to read back that they are in effect.

    Raises:
        ToolError: a limit cannot be set, or is not in effect.
    """
    for index, mebibytes in spec.memory_limits:
        # Anything but a plain number would take away the limit of device 0.
        await tool.command(files, f"set_default_device_pinned_mem_limit {index:d} {mebibytes:d}M")
        if verify:
            answer = await tool.command(files, f"get_default_device_pinned_mem_limit {index:d}")
            if not shows_memory_limit(answer.output, mebibytes):
                raise LimitRefused(
                    f"the MPS daemon does not take the memory limit {mebibytes}M for GPU {index}: "
                    f"it reads back {answer.text or 'nothing'}"
                )
    answer = await tool.command(
        files, f"set_default_active_thread_percentage {spec.thread_percentage:d}"
    )
    # The daemon answers with the percentage that is then in effect.
    if verify and not shows_percentage(answer.output, spec.thread_percentage):
        raise LimitRefused(
            f"the MPS daemon does not take the thread percentage {spec.thread_percentage}: "
            f"it answers {answer.text or 'nothing'}"
        )


async def has_limits(tool: ControlTool, files: DaemonFiles, spec: DaemonSpec) -> bool:
    """Whether a running daemon has exactly the limits that it shall have.

    Memory limits are read back in whole units only, so its log must agree.
    """
    if told_memory_limits(files) != {str(i): f"{m}M" for i, m in spec.memory_limits}:
        return False
    try:
        answer = await tool.command(files, "get_default_active_thread_percentage")
        if not shows_percentage(answer.output, spec.thread_percentage):
            return False
        for index, mebibytes in spec.memory_limits:
            answer = await tool.command(files, f"get_default_device_pinned_mem_limit {index:d}")
            if not shows_memory_limit(answer.output, mebibytes):
                return False
    except ToolError:
        return False
    return True


def told_memory_limits(files: DaemonFiles) -> dict[str, str] | None:
    """The memory limits that a daemon was told since its start, by device; None if unknown."""
    told: dict[str, str] | None = None
    try:
        with open(files.control_log, "rb") as log:
            for line in log:
                if _START in line:
                    told = {}
                elif told is not None and (found := _TOLD.search(line)):
                    told[os.fsdecode(found[1])] = os.fsdecode(found[2])
    except OSError:
        return None
    return told
