"""What is told of errors that belong to no task."""

from __future__ import annotations

import asyncio

from support.aio import run

from gpu_device_plugin.watch import loop as module
from gpu_device_plugin.watch.loop import tell_errors_once


def test_an_error_is_told_once_a_minute_and_in_one_line(caplog, monkeypatch):
    async def work():
        tell_errors_once()
        loop = asyncio.get_running_loop()
        full = {"message": "no accept", "exception": OSError(24, "Too many open files")}
        for _ in range(100):
            loop.call_exception_handler(full)
        loop.call_exception_handler({"message": "another"})
        monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
        loop.call_exception_handler(full)

    run(work())
    assert [record.getMessage() for record in caplog.records] == [
        "no accept: [Errno 24] Too many open files",
        "another: no exception",
        "no accept: [Errno 24] Too many open files",
    ]
    assert not any(record.exc_info for record in caplog.records)
