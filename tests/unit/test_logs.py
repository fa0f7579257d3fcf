"""What log lines look like."""

from __future__ import annotations

import json
import logging
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.logs import JsonFormatter, LogFormat, TextFormatter, set_up_logging
from gpu_device_plugin.programs.common import run_program
from gpu_device_plugin.programs.device_plugin import serve


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


def test_pairs_of_a_message_are_fields():
    fields = json.loads(
        JsonFormatter().format(
            record(
                "lost 100%% gpu=%s index=%d reason=%r in %.1f s", "GPU-1", 3, 'it\'s "gone"', 2.5
            )
        )
    )

    assert fields["msg"] == """lost 100% gpu=GPU-1 index=3 reason='it\\'s "gone"' in 2.5 s"""
    assert (fields["gpu"], fields["index"], fields["reason"]) == ("GPU-1", 3, 'it\'s "gone"')
    assert set(fields) == {"ts", "level", "logger", "msg", "gpu", "index", "reason"}


def test_a_pair_does_not_replace_what_every_line_has():
    fields = json.loads(JsonFormatter().format(record("x level=%s o=%s p=%.1f", "a", ["b"], 0.25)))

    assert (fields["level"], fields["o"], fields["p"]) == ("warning", "['b']", 0.25)


def test_a_message_that_is_formatted_otherwise_has_no_fields():
    assert "key" not in json.loads(JsonFormatter().format(record("key=%(key)s", {"key": "x"})))
    assert "key" not in json.loads(JsonFormatter().format(record("key=%s")))


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
ARGUMENTS = st.lists(
    ANY_TEXT | st.integers() | st.floats() | st.none() | st.booleans(), min_size=3, max_size=3
)


@given(ANY_TEXT.map(lambda text: text.replace("%", "%%")), ARGUMENTS)
def test_json_lines_are_lines_that_can_be_read_whatever_the_text(text, arguments):
    line = JsonFormatter().format(record(text + " a=%s b=%r c=%s", *arguments))

    assert "\n" not in line
    assert "\r" not in line
    fields = json.loads(line, parse_constant=pytest.fail)
    assert set(fields) == {"ts", "level", "logger", "msg", "a", "b", "c"}


@given(ARGUMENTS)
def test_text_lines_are_lines_whatever_comes_from_outside(arguments):
    line = TextFormatter().format(record("a=%s b=%r: %s", *arguments))

    assert line.isprintable()
    assert len(line.splitlines()) == 1


def test_a_configuration_keeps_its_lines():
    assert "configuration:\n{\n}" in TextFormatter().format(record("configuration:\n%s", "{\n}"))


@pytest.mark.parametrize(("variable", "is_json"), [("json", True), ("text", False), ("odd", False)])
def test_mistakes_in_the_options_are_logged_in_the_form_that_the_variable_asks_for(
    monkeypatch, capsys, variable, is_json
):
    monkeypatch.setenv("GPU_NODE_LOG_FORMAT", variable)
    assert run_program(Program.DEVICE_PLUGIN, serve, ["--no-such-flag"]) == 1

    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("{") == is_json
    assert not is_json or "no-such-flag" in json.loads(line)["msg"]


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_traceback_follows_where_there_is_one(formatter):
    assert "ValueError: broken" in formatter.format(record("failed", error=True))


@pytest.mark.parametrize(
    ("form", "formatter"), [(LogFormat.TEXT, TextFormatter), (LogFormat.JSON, JsonFormatter)]
)
def test_records_go_to_stderr_in_the_chosen_form(form, formatter):
    set_up_logging(form)

    assert [type(handler.formatter) for handler in logging.root.handlers] == [formatter]
    assert not logging.getLogger("grpclib.server").isEnabledFor(logging.CRITICAL)
