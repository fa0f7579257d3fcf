"""Errors that an event loop meets on its own."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

log = logging.getLogger(__name__)

QUIET_SECONDS = 60.0
"""Time in which one kind of error is told once."""


def tell_errors_once() -> None:
    """Makes one line of each error that the running loop meets, not a traceback for each time.

    Such an error is, for instance, a connection that cannot be accepted since the process is out
    of file descriptors, which asyncio tells again and again.
    """
    told: dict[str, float] = {}

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        what = f"{context.get('message', 'error')}: {context.get('exception') or 'no exception'}"
        now = time.monotonic()
        if now - told.get(what, -QUIET_SECONDS) >= QUIET_SECONDS:
            told[what] = now
            log.error("%s", what)

    asyncio.get_running_loop().set_exception_handler(handle)
