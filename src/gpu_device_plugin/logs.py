"""Log output: one line for each change of state, as text in klog's manner or as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from enum import StrEnum


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
        where = record.name.removeprefix("gpu_device_plugin.")
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
            "logger": record.name.removeprefix("gpu_device_plugin."),
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
