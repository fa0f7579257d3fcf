"""One connection of a client: request after request, each within its limits; h11 frames them."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import h11

from gpu_device_plugin.web.headers import complete
from gpu_device_plugin.web.messages import Response

log = logging.getLogger(__name__)

LARGEST_HEAD = 8 * 1024
"""Bytes of a request's first line and headers."""
READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a client may take, in seconds."""

    head: float = 10.0
    """For a handshake, and for a request from its first byte (of a connection: from its start)."""
    idle: float = 75.0
    """Between requests; longer than between two scrapes, mostly."""
    write: float = 10.0
    """To take a whole answer."""
    linger: float = 1.0
    """To see an answer that was given before the client had sent everything."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    """By names in lower case; of several with one name the last."""
    local_address: str

    def header(self, name: str) -> str:
        """A header's value; empty if it was not sent."""
        return self.headers.get(name, "")


Answer = Callable[[Asked], Awaitable[Response]]


class _Refused(Exception):
    """The connection ends after this answer."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.response = Response.of_text(status, text, **headers)


class ClientConnection:
    """Serves one client until either side has enough."""

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext | None,
        answer: Answer,
        limits: Limits,
        complain: Callable[[str], None],
    ) -> None:
        """Takes over an accepted socket.

        Args:
            sock: the socket.
            tls: what to begin with; None for plain HTTP.
            answer: answers requests.
            limits: of time.
            complain: told what clients do wrong that their owner would want to know.
        """
        self._sock = sock
        self._tls = tls
        self._answer = answer
        self._limits = limits
        self._complain = complain
        self._method = b""
        """Of the request that is being answered."""
        self._has_answered = False
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD - 1)
        self.waits_since: float | None = time.monotonic()
        """Since when the client is waited for; None while an answer is being made."""

    async def serve(self) -> None:
        """Answers until the connection ends; never raises but when cancelled."""
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await self._open()
            while await self._exchange(reader, writer):
                self._protocol.start_next_cycle()
                self._has_answered = True
                # Requests that were sent together must not keep the loop from everything else.
                await asyncio.sleep(0)
            async with asyncio.timeout(self._limits.write):
                writer.close()
                await writer.wait_closed()
        except ssl.SSLError as error:
            self._complain(_tls_trouble(error))
        except (OSError, h11.ProtocolError) as error:
            log.debug("a connection has ended: %s", error)
        except Exception:
            log.exception("a connection has failed")
        finally:
            if writer is None:
                self._sock.close()
            else:
                writer.transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            self._sock,
            ssl=self._tls,
            ssl_handshake_timeout=self._limits.head if self._tls else None,
            ssl_shutdown_timeout=self._limits.write if self._tls else None,
        )
        # An answer counts as sent when all of it has left the process.
        transport.set_write_buffer_limits(high=0)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether another one may follow."""
        accepted = ""
        try:
            request = await self._read_request(reader)
            if request is None:
                return False
            asked = _asked(request, writer)
            accepted = asked.header("accept-encoding")
            self.waits_since = None
            response, goes_on = await self._answer(asked), True
            self.waits_since = time.monotonic()
        except _Refused as refused:
            response, goes_on = refused.response, False
        await self._send(writer, response, accepted, goes_on=goes_on)
        if not goes_on:
            await self._linger(reader, writer)
        p = self._protocol
        return p.our_state is h11.DONE and p.their_state is h11.DONE

    async def _read_request(self, reader: asyncio.StreamReader) -> h11.Request | None:
        """The next request, which has no body; None if the client has gone or sends none.

        Raises:
            _Refused: what it sends is not to be answered otherwise.
        """
        is_idle = self._has_answered
        self._method = b""
        try:
            async with asyncio.timeout(self._limits.idle if is_idle else self._limits.head) as end:
                while (event := self._next_event()) is h11.NEED_DATA:
                    data = await reader.read(self._room())
                    if is_idle:
                        is_idle = False
                        end.reschedule(asyncio.get_running_loop().time() + self._limits.head)
                    self._protocol.receive_data(data)
        except TimeoutError:
            if not self._protocol.trailing_data[0]:
                return None
            raise _Refused(408, "the request did not come within its time") from None
        if not isinstance(event, h11.Request):
            return None
        self._method = event.method
        _check(event)
        self._next_event()  # its end, as it has no body
        return event

    def _next_event(self) -> object:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            # A client that goes away in the middle of its request wants no answer.
            if self._protocol.trailing_data[1]:
                raise
            status = error.error_status_hint
            raise _Refused(status, HTTPStatus(status).phrase.lower()) from None

    def _room(self) -> int:
        """How much of the head is still allowed."""
        return min(READ_BYTES, LARGEST_HEAD - len(self._protocol.trailing_data[0]))

    async def _send(
        self, writer: asyncio.StreamWriter, response: Response, accepted: str, *, goes_on: bool
    ) -> None:
        headers, body = complete(response, accepted)
        if not goes_on:
            headers.append(("Connection", "close"))
        data = self._protocol.send(
            h11.Response(
                status_code=response.status,
                headers=headers,
                reason=HTTPStatus(response.status).phrase.encode(),
            )
        )
        parts = [data or b""]
        if body and self._method != b"HEAD":
            parts.append(self._protocol.send(h11.Data(data=body)) or b"")
        parts.append(self._protocol.send(h11.EndOfMessage()) or b"")
        async with asyncio.timeout(self._limits.write):
            writer.write(b"".join(parts))
            await writer.drain()

    async def _linger(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reads on for a moment: closing before would take the answer from a client that sends."""
        try:
            async with asyncio.timeout(self._limits.linger):
                if writer.can_write_eof():
                    writer.write_eof()
                while await reader.read(READ_BYTES):
                    pass
        except (TimeoutError, OSError):
            return


def _asked(request: h11.Request, writer: asyncio.StreamWriter) -> Asked:
    place = writer.get_extra_info("sockname")
    return Asked(
        method=request.method.decode("latin-1"),
        target=request.target.decode("latin-1"),
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers
        },
        local_address=str(place[0]) if place else "",
    )


def _check(request: h11.Request) -> None:
    """Raises _Refused for what is no GET without a body, in HTTP/1.0 or 1.1."""
    if request.method != b"GET":
        raise _Refused(405, "only GET is answered", Allow="GET")
    if request.http_version not in {b"1.0", b"1.1"}:
        raise _Refused(505, "HTTP/1.1 is spoken here")
    for name, value in request.headers:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
            raise _Refused(413, "requests have no body")


def _tls_trouble(error: ssl.SSLError) -> str:
    if error.reason == "HTTP_REQUEST":
        return "a client speaks HTTP to a port that serves HTTPS: probes need scheme HTTPS"
    return f"TLS with a client has failed: {(error.reason or str(error)).lower()}"
