"""Signals as calls in the event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def on_signals(
    *, stop: Callable[[signal.Signals], None], reload: Callable[[], None] | None = None
) -> None:
    """Calls back on SIGINT, SIGTERM and SIGQUIT, and on SIGHUP where a reload is possible.

    Signals that were held back while the program was being loaded come now.
    """
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


async def run_until(stop: asyncio.Event, name: str, life: Coroutine[object, object, None]) -> None:
    """Runs a coroutine until it ends by itself, or until the event comes and it is cancelled.

    Raises:
        Exception: whatever the coroutine ends with.
    """
    work = asyncio.create_task(life, name=name)
    end = asyncio.create_task(stop.wait(), name="stop signal")
    try:
        await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        work.cancel()
        end.cancel()
        await asyncio.gather(work, end, return_exceptions=True)
