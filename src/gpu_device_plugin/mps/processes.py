"""Processes: running one with a time limit, waiting for the end of any, ending some.

Output goes into memory files instead of pipes, so that a daemon which keeps its standard output
open never holds up whoever started it. No thread is involved: ends of processes are events.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05
"""How often a process is looked at where the kernel has no pidfd (before Linux 5.3)."""
MOST_OUTPUT = 65536
"""Bytes of output that are kept."""
KILL_SECONDS = 0.5
"""Longest wait for a process that was killed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    output: str
    errors: str = ""

    @property
    def text(self) -> str:
        """All that it said, on one line."""
        return " / ".join(" ".join(t.split()) for t in (self.output, self.errors) if t.strip())


class NotInTime(Exception):
    """A process did not end within its limit, and was killed."""


def find_program(name: str) -> str | None:
    """The path of a program: as given if there is a slash in it, else looked up in PATH."""
    candidates = [name] if "/" in name else [os.path.join(d, name) for d in os.get_exec_path()]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


async def run_process(
    argv: Sequence[str], *, limit: float, env: Mapping[str, str] | None = None, text: str = ""
) -> Outcome:
    """Runs a program to its end; cancelling kills it, with all that it has started.

    Args:
        argv: the program's path and its arguments.
        limit: seconds that it may take.
        env: its whole environment; None passes our own on.
        text: what it reads from its standard input.

    Raises:
        OSError: it cannot be started.
        NotInTime: it was killed, as it took too long.
    """
    with _memory_file() as output, _memory_file() as errors, _memory_file(text) as given:
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - a fork takes a millisecond
            argv, stdin=given, stdout=output, stderr=errors, env=env, start_new_session=True
        )
        try:
            async with asyncio.timeout(limit):
                await wait_for_end(process.pid, lambda: process.poll() is not None)
        except TimeoutError:
            raise NotInTime(f"{os.path.basename(argv[0])} took more than {limit:g} s") from None
        finally:
            if process.poll() is None:
                _kill_group(process)
        return Outcome(process.returncode, _read_all(output), _read_all(errors))


async def wait_for_end(pid: int, is_over: Callable[[], bool]) -> None:
    """Returns when a process, ours or not, has ended.

    Args:
        pid: its number.
        is_over: whether it has ended; asked again and again where the kernel gives no events.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:
        while not is_over():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(POLL_SECONDS)
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, ended.set)
    try:
        await ended.wait()
        is_over()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and only waits to be collected does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return _is_there(pid)


def _is_there(pid: int) -> bool:
    """Whether there is such a process, running or not; that needs no file."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


async def end_processes(pids: Iterable[int], *, grace: float) -> tuple[int, ...]:
    """Ends processes: asks first, kills after `grace` seconds; those that live on even then."""
    left = tuple(pids)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_SECONDS)):
        left = tuple(pid for pid in left if _send(pid, number))
        ends = [asyncio.ensure_future(wait_for_end(pid, _ended(pid))) for pid in left]
        if ends:
            _, pending = await asyncio.wait(ends, timeout=seconds)
            for end in pending:
                end.cancel()
        left = tuple(pid for pid in left if is_alive(pid))
    return left


def _ended(pid: int) -> Callable[[], bool]:
    return lambda: not is_alive(pid)


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        log.warning("process %d cannot be ended: %s", pid, error.strerror)
    return True


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a child that leads a process group; one that even so does not end is left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(KILL_SECONDS)
    except ProcessLookupError:
        return
    except subprocess.TimeoutExpired:
        log.warning("process %d cannot be killed: it hangs in the kernel", process.pid)


@contextmanager
def _memory_file(text: str = "") -> Iterator[int]:
    fd = os.memfd_create("standard stream")
    try:
        if text:
            os.write(fd, text.encode())
            os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _read_all(fd: int) -> str:
    return os.pread(fd, MOST_OUTPUT, 0).decode("utf-8", "replace")
