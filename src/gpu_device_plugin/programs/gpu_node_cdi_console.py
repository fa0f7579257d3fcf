"""What ``gpu-node cdi`` writes, and where: results to stdout, messages to stderr."""

from __future__ import annotations

import errno
import logging
import os
import sys

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.text import colours_for


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
        raise ConfigError(f"standard output: cannot be written: {error.strerror}") from None


def send_messages_to_stderr() -> None:
    """One line for each message, ours and those of the parts that the plugin has, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MessageFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gpu_device_plugin.programs").setLevel(logging.INFO)


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
