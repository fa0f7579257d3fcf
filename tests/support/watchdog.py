"""A limit on every process of a test."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr

LIMIT = 60.0
"""Seconds after which a process has hung."""


@contextmanager
def limited(
    process: subprocess.Popen[AnyStr], limit: float = LIMIT
) -> Iterator[subprocess.Popen[AnyStr]]:
    """Kills a process after a time, or when the test fails.

    Whoever reads what it writes, or waits for its end, goes on then and fails, too.
    """
    watchdog = threading.Timer(limit, process.kill)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        watchdog.cancel()
