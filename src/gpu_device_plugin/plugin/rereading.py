"""Configuration and hardware read again for a reload, and what comes of it if they do not fit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from gpu_device_plugin.errors import (
    ConfigError,
    HardwareError,
    InitError,
    UnwritableError,
    UserError,
)
from gpu_device_plugin.plugin.node import Node, NodeReader
from gpu_device_plugin.telemetry import Outcome, Reloaded
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reread:
    """What a reload leads to."""

    node: Node | None
    """What is to be served now; None for what is served already."""
    error: UserError | None = None
    """Why the configuration is not applied; None if it is."""
    is_over: Callable[[], bool] | None = None
    """Whether the reload, which failed, might succeed by now, which may block; None if it does not
    wait for that."""

    @property
    def told(self) -> Reloaded:
        """What is told of it."""
        if self.error is None:
            return Reloaded(Outcome.OK)
        is_passing = isinstance(self.error, UnwritableError)
        return Reloaded(Outcome.FAILED, str(self.error), is_passing)


async def reread(reader: NodeReader, before: Node | None, *, must_fit: bool) -> Reread:
    """Reads all anew; a configuration that cannot be used leaves the one of before in force.

    Args:
        reader: reads configuration and hardware.
        before: what is served.
        must_fit: whether it is an error if not even the configuration of before fits the hardware;
            else nothing is offered.

    Raises:
        UserError: nothing can be served, and that is an error.
    """
    known = None if before is None else before.inventory
    is_serving = before is not None and known is not None and not before.plan_problem
    try:
        loaded, backend = await in_thread("configure", reader.configure)
        node = await in_thread(
            "read", lambda: reader.read(loaded, backend, known, must_fit=must_fit or is_serving)
        )
    except UnwritableError as error:
        _tell_waiting(error)
        return Reread(None, error, error.is_over)
    except ConfigError as error:
        _tell_kept(error)
        return Reread(None, error)
    except InitError:
        raise
    except HardwareError as error:
        return await _former_on_new_hardware(reader, before, error, must_fit=must_fit)
    return Reread(node)


async def _former_on_new_hardware(
    reader: NodeReader, before: Node | None, error: HardwareError, *, must_fit: bool
) -> Reread:
    """The configuration of before, applied to the hardware as it is now."""
    if before is None or before.inventory is None:
        raise error
    loaded, backend, known = before.loaded, before.backend, before.inventory
    read = reader.read
    try:
        node = await in_thread("read", lambda: read(loaded, backend, known))
    except UnwritableError as unwritable:
        _tell_kept(error)
        _tell_waiting(unwritable)
        return Reread(None, error, unwritable.is_over)
    except UserError as another:
        if str(another) != str(error):  # which is told by whoever tells of the other
            log.error("%s", error)
        if must_fit or isinstance(another, InitError):
            raise
        node = await in_thread("read", lambda: read(loaded, backend, known, must_fit=False))
    else:
        _tell_kept(error)
    return Reread(node, error)


def _tell_kept(error: UserError) -> None:
    log.error("%s; the last good configuration stays in force", error)


def _tell_waiting(error: UnwritableError) -> None:
    log.error("%s; what was offered before is offered until that has passed", error)
