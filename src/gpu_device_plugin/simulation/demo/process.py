"""The real ``nvidia-device-plugin`` as a child process of the demonstration."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence

PROGRAM = """\
import ctypes
ctypes.CDLL(None).prctl(1, 15)
from gpu_device_plugin.programs.device_plugin import main
main()
"""
"""Asks first to be sent SIGTERM when the parent is gone (PR_SET_PDEATHSIG), however that went."""

KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
KEPT_PREFIXES = ("PYTHON", "COVERAGE", "LC_")
"""The plugin would take its options from any other variable that happens to be set here."""

END_SECONDS = 5.0
"""How long the process may take to end before it is killed."""
LONGEST_LINE = 2**20
"""Bytes of one log line."""

OnLine = Callable[[str, str], None]


class PluginProcess:
    """Starts the plugin, hands its log over, and never leaves it behind.

    Args:
        arguments: of the program.
        variables: environment variables for it.
        on_line: told of every log record: level and message.
    """

    def __init__(
        self, arguments: Sequence[str], variables: Mapping[str, str], on_line: OnLine
    ) -> None:
        self._arguments = tuple(arguments)
        self._variables = dict(variables)
        self._on_line = on_line
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the process, in a session of its own so that a Ctrl-C is not for it."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            "--log-format=json",
            *self._arguments,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            env=clean_environment(os.environ) | self._variables,
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        self._process = process
        if process.stderr is not None:
            self._reader = asyncio.create_task(self._read(process.stderr), name="plugin log")

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or before."""
        return None if self._process is None else self._process.returncode

    def reload(self) -> None:
        """Sends SIGHUP."""
        self._send(signal.SIGHUP)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self._send(signal.SIGTERM)

    async def wait(self) -> int:
        """Waits for the end of the process and of its log; its exit code."""
        if self._process is None:
            return 0
        code = await self._process.wait()
        if self._reader is not None:
            # Not awaited itself, as whoever gives up waiting must not end the reading.
            await asyncio.wait({self._reader})
        return code

    async def stop(self) -> None:
        """Ends the process, by force if it does not end by itself."""
        self.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self.wait()
        except TimeoutError:
            self._send(signal.SIGKILL)
            await self.wait()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        async for raw in stream:
            level, text = parse_record(raw.decode("utf-8", "replace"))
            if text:
                self._on_line(level, text)


def parse_record(line: str) -> tuple[str, str]:
    """Level and message of a log line; what is no log record counts as an error."""
    try:
        record = json.loads(line)
        return str(record["level"]), str(record["msg"])
    except (ValueError, KeyError, TypeError):
        return "error", line.rstrip()


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python needs to run, and none that is an option of the plugin."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
