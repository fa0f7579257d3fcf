"""One HTTP/1.1 connection to an API server, or another one; h11 does the framing."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import h11

from gpu_device_plugin.kube.errors import ApiUnreachable
from gpu_device_plugin.threads import in_thread

READ_BYTES = 65536
LARGEST_HEAD = 64 * 1024
"""Bytes of a response's status line and headers."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    method: str
    target: str
    """Path and query."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.method} {self.target.partition('?')[0]}"


@dataclass(frozen=True, slots=True)
class Head:
    """How an answer begins."""

    status: int
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect to."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str = ""
    what: str = "the Kubernetes API"
    """What is there, for messages."""


class Connection:
    """A connection that carries one request after the other.

    Every failure of network, TLS or protocol is an `ApiUnreachable`; the connection is of no
    use afterwards.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: str
    ) -> None:
        self._what = what
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
        self._has_ended = False
        """Whether the other side has closed the connection."""
        self._is_answering = False
        """Whether anything has come since the last request."""

    @classmethod
    async def open(cls, endpoint: Endpoint, seconds: float) -> Connection:
        """Connects within so many seconds."""
        where = f"{endpoint.host}:{endpoint.port}"
        name = (endpoint.server_name or endpoint.host) if endpoint.tls else None
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await _connected(endpoint, name)
        except TimeoutError:
            raise ApiUnreachable(
                f"{endpoint.what} cannot be reached at {where}: no connection within {seconds:g} s"
            ) from None
        except (OSError, ValueError) as error:
            raise ApiUnreachable(
                f"{endpoint.what} cannot be reached at {where}: {_reason(error)}"
            ) from None
        _notice_dead_peer(writer)
        return cls(reader, writer, endpoint.what)

    @property
    def is_reusable(self) -> bool:
        """Whether another request can be sent on it, as far as is known."""
        p = self._protocol
        return (
            p.our_state is h11.IDLE
            and p.their_state is h11.IDLE
            and not self._reader.at_eof()
            and not self._writer.is_closing()
        )

    async def send(self, request: Request) -> Head:
        """Sends a request and reads how the answer begins."""
        self._is_answering = False
        headers = [*request.headers]
        if request.body or request.method != "GET":
            headers.append(("Content-Length", str(len(request.body))))
        try:
            data = self._protocol.send(
                h11.Request(method=request.method, target=request.target, headers=headers)
            )
            if request.body:
                data = (data or b"") + (self._protocol.send(h11.Data(data=request.body)) or b"")
            data = (data or b"") + (self._protocol.send(h11.EndOfMessage()) or b"")
            self._writer.write(data)
            await self._writer.drain()
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Response):
                    break
                if not isinstance(event, h11.InformationalResponse):
                    raise self._unanswered()
        except (OSError, h11.ProtocolError) as error:
            if self._has_ended and not self._is_answering:
                raise self._unanswered() from None
            raise self._broken(error) from None
        headers_got = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
        }
        return Head(event.status_code, headers_got)

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The parts of the answer's body as they come; at the end the connection is free again."""
        try:
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Data):
                    if event.data:
                        yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    raise self._cut_short()
            if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
                self._protocol.start_next_cycle()
        except (OSError, h11.ProtocolError) as error:
            # As a watch does when an API server is killed: that is HTTP, but not all of it.
            raise self._cut_short() if self._has_ended else self._broken(error) from None

    async def whole_body(self, largest: int) -> bytes:
        """The answer's body in one piece, of no more than so many bytes."""
        parts, size = list[bytes](), 0
        async with aclosing(self.body()) as body:
            async for part in body:
                parts.append(part)
                size += len(part)
                if size > largest:
                    raise ApiUnreachable(f"{self._what} answers with more than {largest} bytes")
        return b"".join(parts)

    def close(self) -> None:
        """Ends the connection at once."""
        self._writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _broken(self, error: OSError | h11.ProtocolError) -> ApiUnreachable:
        return ApiUnreachable(f"the connection to {self._what} broke: {_reason(error)}")

    def _unanswered(self) -> ApiUnreachable:
        return ApiUnreachable(f"{self._what} closed the connection before it answered")

    def _cut_short(self) -> ApiUnreachable:
        return ApiUnreachable(f"{self._what} closed the connection in an answer")

    async def _next_event(self) -> Any:
        while True:
            event = self._protocol.next_event()
            if event is not h11.NEED_DATA:
                return event
            data = await self._reader.read(READ_BYTES)
            self._has_ended = not data
            self._is_answering |= bool(data)
            self._protocol.receive_data(data)


async def _connected(
    endpoint: Endpoint, name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first address of a name that answers.

    The name is looked up in a thread of our own, since the loop's own lookups hold up the end of
    the program for as long as the resolver waits for its servers.
    """
    failure: OSError | None = None
    for address in await _addresses(endpoint.host, endpoint.port):
        try:
            return await asyncio.open_connection(
                address, endpoint.port, ssl=endpoint.tls, server_hostname=name
            )
        except OSError as error:
            failure = failure or error
    raise failure or OSError(f"{endpoint.host} has no address")


async def _addresses(host: str, port: int) -> list[str]:
    with suppress(ValueError):
        ipaddress.ip_address(host.partition("%")[0])
        return [host]
    found = await in_thread("name", lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def _notice_dead_peer(writer: asyncio.StreamWriter) -> None:
    """Lets the kernel find out within 75 s that the other side is gone without a word.

    A watch is silent for minutes; HTTP/1.1 has no ping of its own.
    """
    raw: socket.socket | None = writer.get_extra_info("socket")
    if raw is None or raw.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 75_000)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error.strerror or error}"
    if isinstance(error, h11.ProtocolError):
        return f"this is not HTTP: {error}"
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
