"""Requests to a running simulated node: pods, restarts, what it looks like.

One JSON object each way, on one line each: ``{"do": "pod", …}``, and ``{"ok": true, …}`` or
``{"ok": false, "error": …, "hint": …}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from gpu_device_plugin.errors import ConfigError, UsageError, UserError

ANSWER_SECONDS = 30.0
"""Longest time for a request; admission of a pod waits for the plugin's answers."""
LONGEST = 64 * 1024
"""Bytes of a request or an answer's line that are read at a time."""

Json = dict[str, Any]
Handler = Callable[[Json], Awaitable[Json]]


@asynccontextmanager
async def serve_control(path: str, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Takes requests as long as the block lasts.

    Args:
        path: of the socket, in a directory of this user's alone.
        handlers: what is done, by the ``do`` of requests; each may raise UserError.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await reader.readline()
                answer = await _answer(line, handlers)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(talk, path, limit=LONGEST)
    try:
        yield
    finally:
        server.close()
        with suppress(FileNotFoundError):
            os.unlink(path)


async def _answer(line: bytes, handlers: Mapping[str, Handler]) -> Json:
    try:
        request = json.loads(line)
        handler = handlers.get(str(request["do"]))
        if handler is None:
            raise UsageError(f"there is no request {request['do']!r}", ", ".join(handlers))
        return {"ok": True, **await handler(request)}
    except UserError as error:
        return {"ok": False, "error": error.message, "hint": error.hint}
    except (ValueError, KeyError, TypeError) as error:
        return {"ok": False, "error": f"no request: {error}", "hint": ""}


def ask(path: str, request: Json) -> Json:
    """Sends a request to the node behind a socket, and waits.

    Raises:
        ConfigError: it does not answer, or refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as file:
                answer: Json = json.loads(file.readline())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"the simulated node does not answer at {path}: {reason}",
            "it has probably just ended",
        ) from None
    if not answer.get("ok"):
        raise ConfigError(str(answer.get("error", "refused")), str(answer.get("hint", "")))
    return answer
