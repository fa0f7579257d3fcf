"""The terminal while something is drawn on it again and again, and how it was before."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TextIO

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The alternate screen, without cursor and line wrap, cleared."""
LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
LINE = "\x1b[2K"
"""Clears the line; before it is written, as a full line leaves the cursor on its last cell."""
REST_OF_SCREEN = "\x1b[J"
FRAME = ("\x1b[?2026h", "\x1b[?2026l")
"""Around what is to be shown in one step; terminals that do not know it ignore it."""


class Canvas:
    """Draws whole pictures; leaves the terminal as it was, however the block ends."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._attributes: list[Any] | None = None
        self._suspend: Any = None

    def __enter__(self) -> Self:
        """Takes the terminal over: nothing that is typed shows, Ctrl-C still works."""
        # Stopped in the middle, it would leave the terminal as it is, and its limits running.
        self._suspend = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        if sys.stdin is not None and sys.stdin.isatty():
            self._attributes = termios.tcgetattr(sys.stdin)
            quiet = termios.tcgetattr(sys.stdin)
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        self._write(ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the terminal back."""
        try:
            self._write(LEAVE)
        finally:
            if self._attributes is not None:
                # What was typed meanwhile was meant for nobody.
                termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, self._attributes)
            signal.signal(signal.SIGTSTP, self._suspend)

    def size(self) -> tuple[int, int]:
        """Columns and lines at this moment."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def draw(self, lines: Sequence[str]) -> None:
        """Shows lines, which bring their colours along, in place of what was there."""
        text = "\r\n".join(LINE + line for line in lines)
        rest = "\r\n" + REST_OF_SCREEN if len(lines) < self.size()[1] else ""
        self._write(FRAME[0] + HOME + text + rest + FRAME[1])

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
