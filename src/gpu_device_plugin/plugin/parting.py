"""How long to wait between the end of a resource's streams and its next registration.

When a stream ends, the kubelet takes the plugin with that resource's *name* out of its books, and
then closes the connection (`runClient` in its devicemanager, plugin/v1beta1/handler.go). It does so
at once, unless it is starved or is writing the list before to a slow disk. If the same resource has
been registered anew by then, it is the new plugin that is taken out: all its devices count as
unhealthy, or it serves on without the kubelet noticing its end. So the closed connection is waited
for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress

from gpu_device_plugin.kubelet.transport import UnixServer
from gpu_device_plugin.plugin.kubelet_socket import Identity

PARTING = 0.5
"""Seconds to wait at most."""

FORGIVEN = 60.0
"""Seconds after which a kubelet that was waited for in vain is waited for once more."""


class Parting:
    """Knows whether a kubelet closes its connections, so that none is waited for in vain again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kubelet: Identity | None = None
        self._has_closed = False
        self._given_up_until = -math.inf

    def seconds(self, kubelet: Identity | None) -> float:
        """How long to wait for a kubelet; not at all for one that leaves its connections open."""
        if kubelet != self._kubelet:
            self._kubelet, self._has_closed, self._given_up_until = kubelet, False, -math.inf
        return 0.0 if self._clock() < self._given_up_until else PARTING

    def note(self, *, closed: bool) -> None:
        """Tells whether it has closed them in time. One that ever does can only have been slow."""
        self._has_closed = self._has_closed or closed
        if not self._has_closed:
            self._given_up_until = self._clock() + FORGIVEN

    async def end(self, server: UnixServer, limit: float) -> None:
        """Stops a server when its connections have been closed by the kubelet.

        Args:
            server: one whose streams are about to end.
            limit: the loop's time at which they are cut; one that has passed asks for that.
        """
        if server.is_connected:
            is_patient = limit > asyncio.get_running_loop().time()
            closed = False
            with suppress(TimeoutError):
                async with asyncio.timeout_at(limit):
                    await server.leave()
                    closed = True
            if is_patient:
                self.note(closed=closed)
        await server.stop()
