"""How the commands of ``gpu-node`` end, and what they write where: messages go to stderr."""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.console.screen import colours_for
from gpu_device_plugin.errors import ConfigError, UsageError, UserError
from gpu_device_plugin.threads import start_thread

log = logging.getLogger(__name__)

USAGE_EXIT = 2
INTERRUPTED_EXIT = 130
PIPE_EXIT = 141
"""As a shell has them for SIGINT and SIGPIPE."""

SLOW_SECONDS = 1.0
"""After so long somebody at a terminal wants to know what is waited for."""
ERASE_LINE = "\r\x1b[K"


def run_command(work: Callable[[], int], failure: int = 1) -> int:
    """Runs a command; errors are one line each on stderr.

    Args:
        work: does it and returns the exit code.
        failure: the exit code after an error that a user can mend.

    Returns:
        The exit code: that of the work, or 2 if the options make no sense.
    """
    send_messages_to_stderr()
    try:
        code = work()
        sys.stdout.flush()
    except UserError as error:
        log.error("%s", error)
        return USAGE_EXIT if isinstance(error, UsageError) else failure
    except BrokenPipeError:
        _drop_output()
        return PIPE_EXIT
    except OSError as error:
        log.error("the operating system refuses: %s", error)
        _flush_or_drop()
        return failure
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    return code


def write_out(text: str) -> None:
    """Writes to stdout; what has no form in UTF-8 is written with backslashes.

    Raises:
        ConfigError: stdout does not take it.
    """
    try:
        sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _drop_output()
        raise ConfigError(f"standard output: cannot be written: {error.strerror}") from None


def _flush_or_drop() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            _drop_output()


def _drop_output() -> None:
    """Lets what could not be written vanish: the interpreter tries once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def send_messages_to_stderr() -> None:
    """One line for each message, ours and those of the parts that the plugin has, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MessageFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gpu_device_plugin.programs").setLevel(logging.INFO)


@contextmanager
def slow_note(text: str, after: float = SLOW_SECONDS) -> Iterator[None]:
    """Says on a terminal what is going on if it takes long; nothing of it stays.

    Args:
        text: what is going on, such as ``reading the GPUs``.
        after: seconds that pass before anything is said.
    """
    stream = sys.stderr
    if not stream.isatty():
        yield
        return
    lock = threading.Lock()
    over = threading.Event()
    said = False

    def say() -> None:
        nonlocal said
        over.wait(after)
        with lock:
            if not over.is_set():
                said = True
                stream.write(f"{one_line(text)} ...")
                stream.flush()

    with suppress(OSError):  # a limit of threads costs the note, and nothing else
        start_thread("note", say)
    try:
        yield
    finally:
        with lock:
            over.set()
            if said:
                stream.write(ERASE_LINE)
                stream.flush()


class _MessageFormatter(logging.Formatter):
    """``warning: MESSAGE``, the first word coloured on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        colours = colours_for(sys.stderr, os.environ)
        word, colour = "note", colours.cyan
        if record.levelno >= logging.ERROR:
            word, colour = "error", colours.red
        elif record.levelno >= logging.WARNING:
            word, colour = "warning", colours.yellow
        return f"{colours.paint(colour, word)}: {one_line(record.getMessage())}"
