"""Blocking calls beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.aio import run, until

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


def test_the_end_of_a_call_may_meet_the_end_of_the_loop(monkeypatch):
    release, failed = threading.Event(), list[threading.ExceptHookArgs]()
    threads = list[threading.Thread]()
    monkeypatch.setattr(threading, "excepthook", failed.append)

    def call() -> None:
        threads.append(threading.current_thread())
        release.wait()

    async def work():
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "is_closed", lambda: False)  # as it was a moment ago
        task = asyncio.create_task(in_thread("late", call))
        await until(lambda: bool(threads))
        task.cancel()

    asyncio.run(work())
    release.set()
    threads[0].join(10)
    assert not threads[0].is_alive()
    assert failed == []


def test_a_limit_of_threads_is_told_as_what_the_system_refuses(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    with pytest.raises(OSError, match=r"no thread can be started: the limit of processes"):
        run(in_thread("answer", lambda: 42))
