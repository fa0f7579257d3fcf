"""What daemons leave behind: processes, files, modes. Used at the end and after a kill -9."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping

from gpu_device_plugin.mps.compute_mode import ComputeModes, reset_all
from gpu_device_plugin.mps.lock import UNSEEN, is_held, lock_holder
from gpu_device_plugin.mps.names import (
    PIPE_VARIABLE,
    SERVER_PROGRAM,
    DaemonFiles,
    find_traces,
    ready_file,
)
from gpu_device_plugin.mps.plan import DaemonSpec
from gpu_device_plugin.mps.processes import end_processes
from gpu_device_plugin.mps.tool import ControlTool, DaemonAbsent, ToolError
from gpu_device_plugin.news import News
from gpu_device_plugin.processes import command_lines

log = logging.getLogger(__name__)

QUIT_SECONDS = 5.0
"""Longest time for ``quit``, which waits for clients; afterwards the daemon is killed."""
GRACE_SECONDS = 1.0
"""Time that a process gets to end by itself before it is killed."""
POLL_SECONDS = 0.02


async def end_daemon(
    tool: ControlTool, files: DaemonFiles, *, unseen_too: bool = False
) -> list[str]:
    """Ends the daemon of a resource with its servers, by force if need be.

    Args:
        tool: the control program.
        files: those of the daemon.
        unseen_too: tell a daemon to quit even if nobody holds the lock. It is told, too, where it
            cannot be seen who does.

    Returns:
        What has gone wrong.
    """
    if unseen_too or is_held(files, unknown=True):
        try:
            await tool.command(files, "quit", QUIT_SECONDS)
        except DaemonAbsent as error:
            log.info("no daemon to quit: %s resource=%s", error, files.resource)
        except ToolError as error:
            log.warning("the daemon is killed: %s resource=%s", error, files.resource)
        else:
            await _until_unlocked(files)
    problems = list[str]()
    holder = None
    try:
        holder = lock_holder(files)
    except OSError as error:
        problems.append(f"an MPS daemon may still hold {files.lock}: {error.strerror}")
    if holder == UNSEEN:
        problems.append(
            f"an MPS daemon outside this container's view holds {files.lock}: end it on the node"
        )
    pids = [holder] if holder else []
    # Servers outlive a control daemon that was killed, and keep the GPUs to themselves.
    try:
        pids += server_pids(files)
    except OSError as error:
        problems.append(f"MPS servers of {files.resource} may still run: {error.strerror}")
    left = await end_processes(pids, grace=GRACE_SECONDS)
    problems.extend(f"MPS process {pid} of {files.resource} cannot be killed" for pid in left)
    return problems


async def _until_unlocked(files: DaemonFiles) -> None:
    """Waits, not for long, until the daemon has ended."""
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            while is_held(files, unknown=True):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return


def server_pids(files: DaemonFiles) -> Iterator[int]:
    """The MPS servers that a daemon with that pipe directory has started."""
    for pid, arguments in command_lines():
        if os.path.basename(arguments[0]) == SERVER_PROGRAM and _uses(pid, files.pipe):
            yield pid


def _uses(pid: int, pipe: str) -> bool:
    """Whether a process was given a pipe directory, and that very one, not one of its name."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
        theirs = os.stat(f"/proc/{pid}/root{pipe}")
        return os.fsencode(f"{PIPE_VARIABLE}={pipe}") in variables and os.path.samestat(
            theirs, os.stat(pipe)
        )
    except OSError:
        return False


class Remover:
    """Removes files, and says once of each that cannot be removed for now, however often it tries."""

    def __init__(self) -> None:
        self._news = defaultdict[str, News](News)
        """By their paths, what was said of files that stay."""

    def withdraw(self, path: str) -> None:
        """Removes a file that tells of readiness, if it is there."""
        try:
            os.unlink(path)
        except OSError as error:
            # What is not there cannot be removed from a read-only file system either.
            if os.path.lexists(path):
                if self._news[path].is_new(str(error)):
                    log.warning("%s cannot be removed: %s", path, error.strerror)
                return
        self._news.pop(path, None)

    def remove_files(self, files: DaemonFiles) -> None:
        """Removes what a daemon has besides its pipes, to which mounts of clients may lead."""
        self.withdraw(files.started)
        problems = list[BaseException]()
        if os.path.isdir(files.log):
            shutil.rmtree(files.log, onerror=lambda _, __, why: problems.append(why[1]))
        if not problems:
            self._news.pop(files.log, None)
        elif self._news[files.log].is_new(str(problems[0])):
            log.warning("%s stays: %s", files.log, problems[0])


async def repair(
    root: str,
    wanted: Mapping[str, DaemonSpec],
    tool: ControlTool,
    modes: ComputeModes,
    remover: Remover,
) -> None:
    """Puts right what a program that was killed has left, but for daemons that are wanted.

    Those are taken over, or replaced, when they are started.

    Args:
        root: of the tree.
        wanted: by resource, the daemons that are about to be started.
        tool: the control program.
        modes: the compute modes of the node.
        remover: removes the files.
    """
    remover.withdraw(ready_file(root))
    stale = [files for files in find_traces(root) if _is_stale(files)]
    if not stale:
        return
    for files in stale:
        if files.resource not in wanted:
            log.warning("cleaning up after a program that was killed resource=%s", files.resource)
            _tell(await end_daemon(tool, files))
            remover.remove_files(files)
    needed = {gpu for spec in wanted.values() for gpu in spec.gpus}
    left = [gpu for gpu in await modes.exclusive() if gpu not in needed]
    _tell(await reset_all(modes, left))


def _is_stale(files: DaemonFiles) -> bool:
    there = os.path.exists(files.started) or os.path.exists(files.log)
    return there or is_held(files, unknown=True)


def _tell(problems: list[str]) -> None:
    for problem in problems:
        log.warning("%s", problem)
