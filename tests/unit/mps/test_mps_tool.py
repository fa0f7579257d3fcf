"""The control program, as it is called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.aio import run
from support.mps import MpsTools

from gpu_device_plugin.mps.names import DaemonFiles
from gpu_device_plugin.mps.tool import (
    ControlTool,
    DaemonAbsent,
    ToolError,
    ToolHangs,
    ToolMissing,
    shows_memory_limit,
    shows_percentage,
)


@pytest.fixture
def files(tools: MpsTools) -> DaemonFiles:
    found = tools.files()
    for path in (found.pipe, found.log):
        (tools.root / path).mkdir(parents=True)
    return found


def test_a_daemon_is_started_and_answers(tools, files):
    tool = tools.around().tool
    assert run(tool.start_daemon(files)).exit_code == 0
    assert tools.daemon()
    answer = run(tool.command(files, "get_default_active_thread_percentage"))
    assert answer.output == "100.0\n"
    run(tool.command(files, "quit"))
    # Names of variables besides the two would stand behind the commands.
    assert tools.journal() == [
        "control -d",
        "control get_default_active_thread_percentage",
        "control quit",
    ]


def test_without_a_daemon_there_is_no_answer(tools, files):
    with pytest.raises(DaemonAbsent, match=r"get_x ended with 1, it says: Cannot find MPS"):
        run(tools.around().tool.command(files, "get_x"))


def test_silence_is_told_as_such(tools, files):
    tools.control.write_text("#!/bin/sh\nexit 9\n")
    with pytest.raises(DaemonAbsent, match="ended with 9, it says: nothing"):
        run(tools.around().tool.command(files, "quit"))


def test_an_old_control_program_does_not_know_limits(tools, files):
    tool = tools.around().tool
    run(tool.start_daemon(files))
    tools.turn("unknown-set_default_device_pinned_mem_limit")
    with pytest.raises(ToolError, match=r"the driver is too old .* CUDA 11\.5"):
        run(tool.command(files, "set_default_device_pinned_mem_limit 0 1M"))


@pytest.mark.parametrize("word", ["-d", "quit"])
def test_a_control_program_that_hangs_is_killed(tools, files, word):
    tools.turn(f"hang-{word}")
    tool = tools.around(seconds=0.2).tool
    work = tool.start_daemon(files) if word == "-d" else tool.command(files, word)
    with pytest.raises(ToolHangs, match=rf"{word}: no answer within 0\.2 s"):
        run(work)


def test_a_control_program_that_is_missing_is_named(files):
    tool = ControlTool("no-such-control")
    with pytest.raises(ToolMissing, match=r"no-such-control is not found: .*compute,utility"):
        run(tool.command(files, "quit"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./none", "./none is not found: set by --mps-control-binary or MPS_CONTROL_BINARY"),
        ("/etc/passwd", "/etc/passwd is not an executable file: set by --mps-control-binary"),
        ("/etc", "/etc is not an executable file: set by --mps-control-binary"),
        ("other-control", "compute,utility; the name is set by --mps-control-binary"),
    ],
)
def test_a_control_program_that_was_set_wrongly_names_the_option(files, name, message):
    with pytest.raises(ToolMissing) as error:
        run(ControlTool(name).start_daemon(files))
    assert message in str(error.value)


def test_a_control_program_that_is_missing_by_default_is_nobodys_setting(files, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolMissing, match=r"compute,utility$"):
        run(ControlTool().command(files, "quit"))


def test_a_control_program_that_cannot_be_run_is_named(tools, files):
    tools.control.write_bytes(b"\x7fELF but not really")
    with pytest.raises(ToolMissing, match="cannot be run: Exec format error"):
        run(tools.around().tool.command(files, "quit"))


@pytest.mark.parametrize(
    ("answer", "wanted", "shown"),
    [
        ("25.0\n", 25, True),
        ("25.0\n", 24, False),
        ("Invalid percentage, expected between (0.0, 100.0]\n25.0\n", 25, True),
        ("", 25, False),
        ("twenty-five", 25, False),
    ],
)
def test_percentages_in_answers(answer, wanted, shown):
    assert shows_percentage(answer, wanted) is shown


@pytest.mark.parametrize(
    ("answer", "wanted", "shown"),
    [
        ("7G\n", 8188, True),
        ("7G\n", 8192, False),
        ("500M\n", 500, True),
        ("500M\n", 499, False),
        ("512000K", 500, True),
        ("1T", 1024 * 1024, True),
        ("", 500, False),
        ("No default pinned memory limit set for the device!", 500, False),
    ],
)
def test_memory_limits_in_answers(answer, wanted, shown):
    assert shows_memory_limit(answer, wanted) is shown


@given(st.integers(1, 200 * 1024))
def test_a_limit_rounded_down_is_recognised(mebibytes):
    text = f"{mebibytes // 1024}G" if mebibytes >= 1024 else f"{mebibytes}M"
    assert shows_memory_limit(text, mebibytes)
