"""Limits are set, read back, and compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.aio import run
from support.mps import START, MpsTools, a_daemon

from gpu_device_plugin.mps.limits import LimitRefused, has_limits, set_limits, told_memory_limits
from gpu_device_plugin.mps.names import DaemonFiles


@pytest.fixture
def running(tools: MpsTools) -> DaemonFiles:
    files = tools.files()
    for path in (files.pipe, files.log):
        (tools.root / path).mkdir(parents=True)
    run(tools.around().tool.start_daemon(files))
    return files


def test_limits_are_set_and_each_is_read_back(tools, running):
    tool = tools.around().tool
    assert not run(has_limits(tool, running, a_daemon()))
    run(set_limits(tool, running, a_daemon(), verify=True))
    assert tools.journal()[-5:] == START[3:]
    assert run(has_limits(tool, running, a_daemon()))


def test_without_reading_back_only_the_original_commands_are_sent(tools, running):
    run(set_limits(tools.around().tool, running, a_daemon(), verify=False))
    assert tools.journal()[1:] == [line for line in START[3:] if " get_" not in line]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("set_default_device_pinned_mem_limit", "memory limit 8188M for GPU 0: .* nothing"),
        ("set_default_active_thread_percentage", "thread percentage 25: it answers nothing"),
    ],
)
def test_a_limit_without_effect_is_an_error(tools, running, word, message):
    tools.turn(f"ignore-{word}")
    with pytest.raises(LimitRefused, match=message):
        run(set_limits(tools.around().tool, running, a_daemon(), verify=True))


def test_a_refused_percentage_is_an_error(tools, running):
    with pytest.raises(LimitRefused, match=r"percentage 0: it answers 100\.0"):
        run(set_limits(tools.around().tool, running, a_daemon(percentage=0), verify=True))


@pytest.mark.parametrize(
    "other",
    [
        {"thread_percentage": 24},
        {"memory_limits": ((0, 8187), (1, 500))},
        {"memory_limits": ((0, 8188),)},
        {"memory_limits": ((0, 8188), (1, 500), (2, 1))},
    ],
)
def test_any_other_limit_is_told(tools, running, other):
    tool = tools.around().tool
    run(set_limits(tool, running, a_daemon(), verify=True))
    assert not run(has_limits(tool, running, replace(a_daemon(), **other)))


def test_a_daemon_that_does_not_answer_has_no_limits(tools, running):
    tool = tools.around().tool
    run(set_limits(tool, running, a_daemon(), verify=True))
    tools.turn("fail-get_default_device_pinned_mem_limit")
    assert not run(has_limits(tool, running, a_daemon()))


def test_only_what_was_told_since_the_last_start_counts(running):
    with open(running.control_log, "a", encoding="ascii") as log:
        log.write("Cmd:set_default_device_pinned_mem_limit 7 1M\nStarting control daemon using\n")
        log.write("Cmd:set_default_device_pinned_mem_limit 0 5M\nCmd:quit\n")
        log.write("Cmd:set_default_device_pinned_mem_limit 0 6M\n")
    assert told_memory_limits(running) == {"0": "6M"}


def test_a_log_that_is_gone_tells_nothing(tools):
    assert told_memory_limits(tools.files("nvidia.com/other")) is None
