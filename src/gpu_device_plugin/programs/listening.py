"""The port for metrics, probes and the status page, as the programs see it.

Nothing that serves is imported as long as no address is set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.telemetry import Listener, nobody

if TYPE_CHECKING:
    from gpu_device_plugin.status.reporter import Reporter

Describe = Callable[["Reporter"], None]
"""Tells a reporter where it learns how the program is doing."""


class Port(Protocol):
    """Where a program is looked at from outside."""

    @property
    def tell(self) -> Listener:
        """To be told what happens."""
        ...

    def open(self, describe: Describe) -> AbstractAsyncContextManager[None]:
        """Serves as long as the context lasts."""
        ...


class NoPort:
    """Nobody looks."""

    tell = staticmethod(nobody)

    @asynccontextmanager
    async def open(self, describe: Describe) -> AsyncIterator[None]:  # noqa: ARG002 - nobody asks
        """Serves nothing."""
        yield


def prepare_port(parsed: Parsed) -> Port:
    """The port that the options ask for; nothing is opened yet.

    Raises:
        UserError: an option cannot be used.
    """
    if not parsed.text("metrics-address"):
        return NoPort()
    from gpu_device_plugin.programs.port import OpenPort  # noqa: PLC0415 - 4 MB, only if wanted

    return OpenPort(parsed)
