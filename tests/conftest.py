"""What holds for all tests."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes tells of the machine more than of the code: it may be a busy one.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

SIGNALS = [
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE, signal.SIGTSTP, signal.SIGWINCH),
]


# A shell ignores SIGINT for what it runs in the background, and nohup SIGHUP; the programs that
# tests start would inherit that.
for _number in SIGNALS:
    if _number is not signal.SIGPIPE and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL
        )

LOGGERS = [
    logging.getLogger(name)
    for name in (None, "asyncio", "gpu_device_plugin", "gpu_device_plugin.programs", "grpclib")
]


@pytest.fixture(autouse=True)
def _the_process_is_left_as_it_was() -> Iterator[None]:
    """What a test changes here, every later test and every program that it starts inherits."""
    before = _process()
    blocked, handlers = _blocked(), {number: signal.getsignal(number) for number in SIGNALS}
    yield
    after = _process()
    # An event loop leaves the default behind it, also where coverage had its handler.
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    assert after == before


@pytest.fixture(autouse=True)
def _logging_is_set_up_anew() -> Iterator[None]:
    """A command that a test runs in this process sets it up for itself."""
    before = [(logger, logger.level, logger.handlers[:]) for logger in LOGGERS]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def _blocked() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def _process() -> dict[str, object]:
    return {
        "blocked signals": _blocked(),
        "ignored signals": {n for n in SIGNALS if signal.getsignal(n) is signal.SIG_IGN},
        "directory": os.getcwd(),
        "variables": {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"},
    }
