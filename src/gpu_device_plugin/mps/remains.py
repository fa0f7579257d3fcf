"""What daemons leave behind: processes, files, modes. Used at the end and after a kill -9."""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Iterator

from gpu_device_plugin.mps.compute_mode import ComputeModes, reset_all
from gpu_device_plugin.mps.lock import UNSEEN, lock_holder
from gpu_device_plugin.mps.names import (
    PIPE_VARIABLE,
    SERVER_PROGRAM,
    DaemonFiles,
    find_traces,
    ready_file,
)
from gpu_device_plugin.mps.processes import command_lines, end_processes, is_alive, wait_for_end
from gpu_device_plugin.mps.tool import ControlTool, DaemonAbsent, ToolError

log = logging.getLogger(__name__)

QUIT_SECONDS = 5.0
"""Longest time for ``quit``, which waits for clients; afterwards the daemon is killed."""
GRACE_SECONDS = 1.0
"""Time between asking a process to end and killing it."""
