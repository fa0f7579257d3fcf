"""What has to be there before a resource can be served."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Gate(Protocol):
    """Something that has to be there before a resource can be served, such as an MPS daemon."""

    async def ready(self) -> None:
        """Returns when it is there; logs what it waits for."""
        ...

    async def lost(self) -> str:
        """Returns, with the reason, when it has gone again."""
        ...


class OpenGate:
    """Nothing has to be there."""

    async def ready(self) -> None:
        """At once."""

    async def lost(self) -> str:
        """Never."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never
