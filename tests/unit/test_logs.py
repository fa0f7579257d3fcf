"""What log lines look like."""

from __future__ import annotations

import json
import logging
import re
import sys

import pytest

from gpu_device_plugin.logs import JsonFormatter, LogFormat, TextFormatter, set_up_logging


def record(message: str, *args: object, error: bool = False) -> logging.LogRecord:
    info = None
    if error:
        try:
            raise ValueError("broken")
        except ValueError:
            info = sys.exc_info()
    return logging.LogRecord(
        "gpu_device_plugin.plugin.served", logging.WARNING, "f", 1, message, args, info
    )


def test_text_lines_begin_like_klogs():
    line = TextFormatter().format(record("registered resource=%s", "nvidia.com/gpu"))

    assert re.fullmatch(
        r"W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ plugin\.served\] registered resource=nvidia.com/gpu",
        line,
    )


def test_json_lines_are_objects():
    fields = json.loads(JsonFormatter().format(record("für %s", "immer")))

    assert fields.pop("ts") > 0
    assert fields == {"level": "warning", "logger": "plugin.served", "msg": "für immer"}


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_traceback_follows_where_there_is_one(formatter):
    assert "ValueError: broken" in formatter.format(record("failed", error=True))


@pytest.mark.parametrize(
    ("form", "formatter"), [(LogFormat.TEXT, TextFormatter), (LogFormat.JSON, JsonFormatter)]
)
def test_records_go_to_stderr_in_the_chosen_form(form, formatter):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        set_up_logging(form)
        assert [type(handler.formatter) for handler in root.handlers] == [formatter]
        assert not logging.getLogger("grpclib.server").isEnabledFor(logging.CRITICAL)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("grpclib").setLevel(logging.NOTSET)
        logging.getLogger("asyncio").setLevel(logging.NOTSET)
