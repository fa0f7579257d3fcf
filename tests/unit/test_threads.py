"""Blocking calls beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.aio import run

from gpu_device_plugin.threads import in_thread


def test_the_result_of_a_call_comes_back():
    assert run(in_thread("answer", lambda: 42)) == 42


def test_an_error_of_a_call_comes_back():
    def fail() -> None:
        raise LookupError("nothing here")

    with pytest.raises(LookupError, match="nothing here"):
        run(in_thread("fail", fail))


def test_a_call_that_hangs_can_be_left_behind():
    release = threading.Event()

    async def work():
        task = asyncio.create_task(in_thread("hang", release.wait))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        release.set()

    run(work())


def test_a_call_that_ends_after_the_loop_does_no_harm():
    release, ended = threading.Event(), threading.Event()

    def call() -> None:
        release.wait()
        ended.set()

    async def work():
        task = asyncio.create_task(in_thread("late", call))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(work())
    release.set()
    assert ended.wait(5)
