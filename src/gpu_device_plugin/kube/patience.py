"""How long an answer of the Kubernetes API is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpu_device_plugin.kube.connection import Request
from gpu_device_plugin.kube.errors import ApiUnreachable


@asynccontextmanager
async def limited(
    request: Request, seconds: float, *, in_all: float | None = None
) -> AsyncIterator[None]:
    """Makes an `ApiUnreachable` of what takes longer.

    Args:
        request: for the message.
        seconds: after which it is over.
        in_all: for the message, where these are only what is left of a longer time.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        told = seconds if in_all is None else in_all
        raise ApiUnreachable(
            f"the Kubernetes API does not answer {request} within {told:g} s"
        ) from None


class Patience:
    """How long parts of an answer are waited for, in all.

    The limit is on the reading alone: time that the caller takes does not count.
    """

    def __init__(self, request: Request, seconds: float) -> None:
        """Begins; `seconds` are for all parts together."""
        self._request = request
        self._seconds = seconds
        self._left = seconds

    async def next_part(self, parts: AsyncIterator[bytes]) -> bytes:
        """The next part of a body, which is never empty; nothing at its end."""
        now = asyncio.get_running_loop().time
        began = now()
        async with limited(self._request, max(0.0, self._left), in_all=self._seconds):
            part = await anext(parts, b"")
        self._left -= now() - began
        return part
