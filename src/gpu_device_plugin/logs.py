"""Log output: one line for each change of state, as text in klog's manner or as JSON."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

_PACKAGE = "gpu_device_plugin"


class LogFormat(StrEnum):
    """How log records are written."""

    TEXT = "text"
    JSON = "json"


class TextFormatter(logging.Formatter):
    """``I1129 15:24:52.123456 1 plugin.served] registered resource=nvidia.com/gpu``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, followed by a traceback where there is one.

        What comes from outside cannot break the line; a configuration, which is meant to be of
        several lines, has them in its format string.
        """
        moment = time.localtime(record.created)
        micros = int(record.created % 1 * 1_000_000)
        stamp = f"{time.strftime('%m%d %H:%M:%S', moment)}.{micros:06d}"
        where = record.name.removeprefix(f"{_PACKAGE}.")
        message = record.getMessage()
        if "\n" not in str(record.msg):
            message = _on_one_line(message)
        line = f"{record.levelname[0]}{stamp} {os.getpid()} {where}] {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _on_one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``ts`` (seconds since 1970), ``level``, ``logger``, ``msg``.

    Each ``key=value`` pair of the message is also a field: ``"resource": "nvidia.com/gpu"``. The
    pairs are read off the format string and not off the text, so that values may be anything.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields: dict[str, object] = {
            "ts": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix(f"{_PACKAGE}."),
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({**pairs_of(record), **fields}, ensure_ascii=False)


_PLACEHOLDER = re.compile(r"(?:\b([a-z_]+)=)?%(?:(%)|#?[-+ 0-9.]*[a-zA-Z])")
"""A placeholder of a format string, with the key before it; or an escaped percent sign."""


Scalar = str | int | float | bool | None


def pairs_of(record: logging.LogRecord) -> dict[str, Scalar]:
    """The values that a record's format string has keys for."""
    found = [match for match in _PLACEHOLDER.finditer(str(record.msg)) if not match[2]]
    if not isinstance(record.args, tuple) or len(found) != len(record.args):
        return {}
    return {
        match[1]: _scalar(value)
        for match, value in zip(found, record.args, strict=True)
        if match[1]
    }


def _scalar(value: object) -> Scalar:
    """The value as JSON has it; JSON knows no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, str | int | None) else str(value)


def set_up_logging(form: LogFormat = LogFormat.TEXT, level: int = logging.INFO) -> None:
    """Sends all log records to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form is LogFormat.JSON else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # What goes wrong on a connection is told by our own handlers, in one line.
    logging.getLogger("grpclib").setLevel(logging.CRITICAL + 1)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One record, as whoever looks at the program from outside sees it."""

    time: float
    """Seconds since 1970."""
    level: str
    source: str
    text: str
    """The first line, cut if it is very long."""


class LogTail(logging.Handler):
    """Keeps the newest records of this package, from level info on.

    Args:
        size: how many are kept.
    """

    LONGEST = 300
    """Characters of a line."""

    def __init__(self, size: int = 100) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=size)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record."""
        if not record.name.startswith(_PACKAGE):
            return
        text = record.getMessage().partition("\n")[0]
        if len(text) > self.LONGEST:
            text = text[: self.LONGEST - 1] + "…"
        source = record.name.removeprefix(_PACKAGE).lstrip(".")
        self._lines.append(LogLine(record.created, record.levelname.lower(), source, text))

    def newest(self) -> tuple[LogLine, ...]:
        """What is kept, the newest first."""
        return tuple(reversed(self._lines))
