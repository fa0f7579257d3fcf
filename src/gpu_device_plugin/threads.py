"""Blocking calls beside the event loop."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_NO_THREAD = "no thread can be started: the limit of processes (pids.max) or of memory is reached"

T = TypeVar("T")


async def in_thread(name: str, call: Callable[[], T]) -> T:
    """Runs a blocking call in a daemon thread and waits for its result.

    Unlike with an executor, a call that never returns (a driver that hangs) neither delays the
    end of the process nor keeps anybody else from being served; cancelling leaves it behind.

    Raises:
        OSError: no thread can be started.
        Exception: whatever the call ends with.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not result.done():
            outcome()

    def deliver(outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            failure = error
            deliver(lambda: result.set_exception(failure))
        else:
            deliver(lambda: result.set_result(value))

    start_thread(name, run)
    return await result


def start_thread(name: str, run: Callable[[], None]) -> threading.Thread:
    """Runs something in a thread that does not keep the process from ending.

    Raises:
        OSError: no thread can be started.
    """
    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, _NO_THREAD) from None
    return thread
