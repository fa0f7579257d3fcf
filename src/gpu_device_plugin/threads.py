"""Blocking calls beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(name: str, call: Callable[[], T]) -> T:
    """Runs a blocking call in a daemon thread and waits for its result.

    Unlike with an executor, a call that never returns (a driver that hangs) neither delays the
    end of the process nor keeps anybody else from being served; cancelling leaves it behind.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not result.done():
            outcome()

    def deliver(outcome: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome)

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            failure = error
            deliver(lambda: result.set_exception(failure))
        else:
            deliver(lambda: result.set_result(value))

    threading.Thread(target=run, name=name, daemon=True).start()
    return await result
