"""Programs in a pseudo-terminal: what is typed, and what shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LIMIT = 60.0
"""Seconds after which what is waited for has failed to come."""
_ESCAPES = re.compile(
    r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x1b\([B0]|\x1b\][^\x07]*\x07|[\x07\x0e\x0f]"
)


class Terminal:
    """The terminal of a program."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self.text = ""
        """All that was written, without escape sequences."""
        self._raw = ""

    def type(self, text: str) -> None:
        os.write(self._leader, text.encode())

    def until(self, part: str, since: int = 0) -> str:
        """Waits for a text that shows; all from there on where it is looked for."""
        deadline = time.monotonic() + LIMIT
        while part not in self.text[since:]:
            if time.monotonic() > deadline:
                raise AssertionError(f"{part!r} does not show: {self.text[since:]!r}")
            if select.select([self._leader], [], [], 0.1)[0]:
                self._raw += os.read(self._leader, 65536).decode(errors="replace")
                self.text = _ESCAPES.sub("", self._raw)
        return self.text[since:]

    def after_typing(self, text: str, part: str) -> str:
        """What shows after something was typed, once it holds a text."""
        since = len(self.text)
        self.type(text)
        return self.until(part, since)


@contextmanager
def terminal(command: Sequence[str], environ: dict[str, str]) -> Iterator[Terminal]:
    """Runs a program in a terminal of 40 lines of 120 columns; kills it in the end."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environ,
        start_new_session=True,
    )
    os.close(follower)
    try:
        yield Terminal(leader)
    finally:
        process.kill()
        process.wait()
        os.close(leader)
