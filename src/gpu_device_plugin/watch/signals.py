"""Signals as calls in the event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def on_signals(
    *, stop: Callable[[signal.Signals], None], reload: Callable[[], None] | None = None
) -> None:
    """Calls back on SIGINT, SIGTERM and SIGQUIT, and on SIGHUP where a reload is possible."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)
