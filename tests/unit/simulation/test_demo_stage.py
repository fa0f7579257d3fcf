"""What the demonstration makes of messages, and of the process behind them."""

from __future__ import annotations

import asyncio
import io
import json
import sys

import pytest
from support.aio import run

from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.simulation.demo import process as module
from gpu_device_plugin.simulation.demo.glyphs import glyphs_of, is_capable
from gpu_device_plugin.simulation.demo.process import PluginProcess, clean_environment, parse_record
from gpu_device_plugin.simulation.demo.stage import LogLine, Side, Stage, Tone
from gpu_device_plugin.simulation.demo.view import ASCII, UNICODE
from gpu_device_plugin.simulation.views import EventKind, KubeletEvent, NodeView

UUID = "GPU-1d422e6f-940a-5d8a-93ae-7f41f89b3df1"


def a_stage(lines: list[LogLine]) -> Stage:
    return Stage("Machine", Inventory(Platform.NVML), ("/tmp/x/",), lines.append)


def test_messages_are_shortened_and_causes_remembered() -> None:
    lines = list[LogLine]()
    stage = a_stage(lines)

    stage.hear_plugin("info", "running with configuration:\n{}")
    stage.hear_plugin("info", "serving socket=/tmp/x/nvidia-gpu.sock")
    stage.hear_plugin("warning", f"unhealthy resource=r device={UUID} reason='XID 48'")
    stage.hear_kubelet(KubeletEvent(EventKind.LIST, "8 devices, 1 unhealthy", resource="r"))
    stage.hear_kubelet(KubeletEvent(EventKind.REJECTED, "rejected: no", pod="p"))
    stage.hear_kubelet(KubeletEvent(EventKind.STARTED, "the kubelet has started"))

    assert [(line.side, line.text, line.tone) for line in lines] == [
        (Side.PLUGIN, "running with configuration", Tone.PLAIN),
        (Side.PLUGIN, "serving socket=nvidia-gpu.sock", Tone.PLAIN),
        (
            Side.PLUGIN,
            "unhealthy resource=r device=GPU-1d422e6f reason='XID 48'",
            Tone.WARNING,
        ),
        (Side.KUBELET, "r: 8 devices, 1 unhealthy", Tone.WARNING),
        (Side.KUBELET, "pod p: rejected: no", Tone.WARNING),
        (Side.KUBELET, "the kubelet has started", Tone.PLAIN),
    ]
    assert stage.picture(NodeView()).causes == {UUID: "XID 48"}


def test_a_line_of_the_plugin_can_be_waited_for() -> None:
    async def story() -> None:
        stage = a_stage([])
        stage.hear_plugin("info", "ready")
        later = asyncio.create_task(stage.until_plugin_says("steady", 0, 5))
        assert await stage.until_plugin_says("ready", 0, 0)
        stage.happen("steady")
        assert not await stage.until_plugin_says("steady", 0, 0)
        stage.hear_plugin("info", "steady now")
        assert await later
        assert not await stage.until_plugin_says("ready", stage.seconds, 0)

    run(story())


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"ts": 1, "level": "info", "msg": "started"}\n', ("info", "started")),
        ("Traceback (most recent call last):\n", ("error", "Traceback (most recent call last):")),
        ("[]", ("error", "[]")),
        ("{}", ("error", "{}")),
    ],
)
def test_what_is_no_log_record_counts_as_an_error(line: str, record: tuple[str, str]) -> None:
    assert parse_record(line) == record


def test_no_option_of_the_plugin_comes_out_of_the_environment() -> None:
    environ = {"PATH": "/bin", "PYTHONPATH": "src", "CONFIG_FILE": "x", "MIG_STRATEGY": "mixed"}

    assert clean_environment(environ) == {"PATH": "/bin", "PYTHONPATH": "src"}


STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"level": "info", "msg": "up"}', file=sys.stderr, flush=True)
time.sleep(60)
"""


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRAM", STUBBORN)
    monkeypatch.setattr(module, "END_SECONDS", 0.1)

    async def story() -> None:
        up = asyncio.Event()
        process = PluginProcess([], {}, lambda _, text: up.set() if text == "up" else None)
        assert process.exit_code is None
        await process.stop()
        await process.start()
        await up.wait()
        await process.stop()
        assert process.exit_code == -9

    run(story())


def test_arguments_and_variables_reach_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import json, os, sys; sys.stderr.write(json.dumps([sys.argv, os.environ['A']]))"
    monkeypatch.setattr(module, "PROGRAM", program)

    async def story() -> None:
        said = list[str]()
        process = PluginProcess(["--x=1"], {"A": "b"}, lambda _, text: said.append(text))
        await process.start()
        assert await process.wait() == 0
        assert json.loads(said[0]) == [["-c", "--log-format=json", "--x=1"], "b"]

    run(story())


def test_pictures_are_for_terminals_that_can_show_them() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert is_capable(Terminal(), {"TERM": "xterm"})
    assert not is_capable(io.StringIO(), {"TERM": "xterm"})
    assert not is_capable(Terminal(), {"TERM": "dumb"})
    assert not is_capable(Terminal(), {})
    assert not is_capable(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert glyphs_of(io.TextIOWrapper(io.BytesIO(), "utf-8")) is UNICODE
    assert glyphs_of(io.TextIOWrapper(io.BytesIO(), "ascii")) is ASCII
    assert sys.executable


def test_the_page_is_told_once_and_shown_in_every_picture() -> None:
    lines = list[LogLine]()
    stage = a_stage(lines)

    stage.hear_plugin("info", "serving HTTP at 127.0.0.1:4711: /, /metrics")

    assert [line.text for line in lines] == [
        "the page: http://127.0.0.1:4711/, the metrics: http://127.0.0.1:4711/metrics"
    ]
    assert stage.picture(NodeView()).page == "http://127.0.0.1:4711/"
