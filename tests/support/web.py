"""A client for the port of metrics, probes and the status page."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import h11

from gpu_device_plugin.status.document import from_json
from gpu_device_plugin.status.model import NodeStatus
from gpu_device_plugin.web.address import Address
from gpu_device_plugin.web.guard import Guard
from gpu_device_plugin.web.messages import Response, Route
from gpu_device_plugin.web.server import WebServer
from support.process import PluginProcess

LISTEN = "--metrics-address=127.0.0.1:0"


@dataclass(frozen=True)
class Reply:
    """What a server has answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._protocol = h11.Connection(h11.CLIENT)

    async def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Reply:
        """Asks and waits for the whole answer."""
        sent = {"Host": "127.0.0.1", **(headers or {})}
        data = self._protocol.send(
            h11.Request(method=method, target=path, headers=list(sent.items()))
        )
        self.writer.write((data or b"") + (self._protocol.send(h11.EndOfMessage()) or b""))
        reply = await self._reply()
        if self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE:
            self._protocol.start_next_cycle()
        return reply

    async def _reply(self) -> Reply:
        head, body = None, b""
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                self._protocol.receive_data(await self.reader.read(65536))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                break
        assert head is not None, "the connection was closed without an answer"
        headers = {name.decode(): value.decode() for name, value in head.headers}
        return Reply(head.status_code, headers, body)

    async def closed(self) -> bytes:
        """What comes until the server has closed the connection."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def client(
    port: int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Client]:
    """A connection to a port of this machine."""
    name = "127.0.0.1" if tls else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def fetch(
    port: int,
    path: str,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """One answer on a connection of its own."""
    async with client(port, tls) as connection:
        return await connection.get(path, headers, method)


async def talk(port: int, data: bytes, *, ends: bool = False) -> bytes:
    """Sends raw bytes; what comes until the server closes the connection."""
    async with client(port) as connection:
        connection.writer.write(data)
        if ends:
            connection.writer.write_eof()
        return await connection.closed()


def trusting(certificate: str) -> ssl.SSLContext:
    """A client's context that trusts one authority."""
    return ssl.create_default_context(cafile=certificate)


HELLO = {"/hello": Route(lambda _: Response.of_text(200, "hello"))}


@asynccontextmanager
async def server(
    routes: Mapping[str, Route] | None = None, **options: Any
) -> AsyncIterator[WebServer]:
    """A server that listens at a port of its own."""
    options.setdefault("guard", Guard())
    async with WebServer(Address("127.0.0.1", 0), routes or HELLO, **options) as running:
        await running.is_listening.wait()
        yield running


async def port_of(running: PluginProcess) -> int:
    """Where a program serves."""
    await running.logged("serving HTTP")
    found = re.search(r"serving HTTPS? at \S*?:(\d+): ", running.log)
    assert found is not None
    return int(found[1])


async def until_status(port: int, path: str, status: int) -> Reply:
    """Asks until that is the answer; the limit is that of the test."""
    while (reply := await fetch(port, path)).status != status:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.01)
    return reply


async def status_of(port: int) -> NodeStatus:
    """The status that a program tells, which may be that of a moment ago."""
    return from_json((await fetch(port, "/status.json")).body)
