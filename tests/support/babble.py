"""Something at a socket that speaks no gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

PREFACE = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""An empty SETTINGS frame, with which every HTTP/2 server begins (RFC 9113, 3.4)."""


@asynccontextmanager
async def babbling(path: str, answer: bytes) -> AsyncIterator[None]:
    """Something that answers whatever is said to it by the same bytes, and hangs up."""

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        with suppress(OSError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(babble, path)
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
