"""Passes on what a daemon writes into its log, so that it is seen where our own log is."""

from __future__ import annotations

import asyncio
import logging
from typing import BinaryIO

POLL_SECONDS = 0.5
LONGEST = 1024 * 1024
"""Bytes that are passed on at once."""

log = logging.getLogger(__name__)


class LogTail:
    """Follows one log file from its beginning, whether it is there yet or not."""

    def __init__(self, resource: str, path: str) -> None:
        self._resource = resource
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to follow."""
        self._task = asyncio.create_task(self._follow(), name=f"log of {self._resource}")

    async def stop(self) -> None:
        """Passes on what has come meanwhile, and ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.pass_on()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._rest:
            self._show(self._rest)
            self._rest = b""

    def pass_on(self) -> None:
        """Passes on the lines that are complete."""
        try:
            if self._file is None:
                self._file = open(self._path, "rb")  # noqa: SIM115 - closed by stop
            data = self._file.read(LONGEST)
        except OSError:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._show(line)

    def _show(self, line: bytes) -> None:
        log.info("%s resource=%s", line.decode("utf-8", "replace"), self._resource)

    async def _follow(self) -> None:
        while True:
            self.pass_on()
            await asyncio.sleep(POLL_SECONDS)
