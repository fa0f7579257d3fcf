"""Log output: one line for each change of state, as text in klog's manner or as JSON."""

from __future__ import annotations

import json
import logging
import os
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
        """One line, followed by a traceback where there is one."""
        moment = time.localtime(record.created)
        micros = int(record.created % 1 * 1_000_000)
        stamp = f"{time.strftime('%m%d %H:%M:%S', moment)}.{micros:06d}"
        where = record.name.removeprefix(f"{_PACKAGE}.")
        line = f"{record.levelname[0]}{stamp} {os.getpid()} {where}] {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``ts`` (seconds since 1970), ``level``, ``logger``, ``msg``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields = {
            "ts": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix(f"{_PACKAGE}."),
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


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
