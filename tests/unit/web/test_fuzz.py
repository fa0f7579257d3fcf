"""Whatever comes in, the server lives, says nothing of itself and keeps nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aio import run, until
from support.web import client, fetch, server, talk

from gpu_device_plugin.web.connection import Limits
from gpu_device_plugin.web.guard import Guard
from gpu_device_plugin.web.server import WebServer
from gpu_device_plugin.web.token import TokenFile

STATUSES = {200, 400, 404, 405, 408, 413, 421, 431, 501, 505}
EXAMPLES = settings(max_examples=60, deadline=None)

TOKENS = st.sampled_from(
    [
        b"GET ",
        b"POST ",
        b"/hello",
        b"/../../etc/passwd",
        b"/%2e%2e/%00",
        b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n",
        b"Host: a\r\n",
        b"Host: ",
        b"Content-Length: 1\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: keep-alive\r\n",
        b"Connection: upgrade\r\nUpgrade: h2c\r\n",
        b"Expect: 100-continue\r\n",
        b"Accept-Encoding: gzip\r\n",
        b"Authorization: Basic \xff\xff\r\n",
        b" folded\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b":",
        b"a" * 3000,
        b"X: y\r\n" * 500,
        b"\x16\x03\x01",
    ]
)
PIECES = st.lists(st.one_of(TOKENS, TOKENS, st.binary(max_size=40)), max_size=12)


@contextmanager
def capture() -> Iterator[list[str]]:
    """What is logged meanwhile, from warnings on."""
    lines = list[str]()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]  # shortest
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)


def statuses(answer: bytes) -> list[int]:
    """Of all answers that came."""
    heads = [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    return [int(head.split()[1]) for head in heads]


async def send(port: int, pieces: list[bytes]) -> bytes:
    """Sends pieces one by one, and the end; what comes back."""
    async with client(port) as connection:
        try:
            for piece in pieces:
                connection.writer.write(piece)
                await connection.writer.drain()
                await asyncio.sleep(0)
            connection.writer.write_eof()
        except (ConnectionError, OSError):
            return b""
        return await connection.closed()


@EXAMPLES
@given(st.lists(PIECES, min_size=1, max_size=5))
def test_random_requests_are_answered_or_closed(requests):
    async def work():
        async with server(limits=Limits(linger=0.02)) as web:
            for pieces in requests:
                answer = await send(web.port, pieces)
                assert set(statuses(answer)) <= STATUSES
                assert b"Traceback" not in answer
            assert (await fetch(web.port, "/hello")).status == 200
            await until(lambda: not web.connections)

    with capture() as lines:
        run(work())
    assert lines == []


@EXAMPLES
@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=300))
def test_any_path_is_found_or_not_and_never_repeated(path):
    async def work():
        async with server() as web:
            answer = await talk(web.port, _request(path))
            assert set(statuses(answer)) <= {200, 400, 404}
            if len(path) > 6 and path != "hello":
                assert path.encode() not in answer

    run(work())


def _request(path: str) -> bytes:
    return f"GET /{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()


@EXAMPLES
@given(st.binary(max_size=200).filter(lambda b: b"\r" not in b and b"\n" not in b))
def test_any_credentials_are_refused(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text("a-token-that-nobody-guesses")

    async def work():
        async with server(guard=Guard(TokenFile(str(path)))) as web:
            head = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: "
            answer = await talk(web.port, head + value + b"\r\n\r\n")
            assert set(statuses(answer)) <= {401, 400}

    run(work())


async def header_flood(web: WebServer) -> None:
    """Headers without end."""
    async with client(web.port) as connection:
        connection.writer.write(b"GET /hello HTTP/1.1\r\n")
        try:
            for number in range(20_000):
                connection.writer.write(b"X-%d: y\r\n" % number)
                await connection.writer.drain()
        except (ConnectionError, OSError):
            return


async def body_flood(web: WebServer) -> None:
    """A body without end, after an answer that nobody waits for."""
    async with client(web.port) as connection:
        connection.writer.write(
            b"POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        try:
            for _ in range(200):
                connection.writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                await connection.writer.drain()
        except (ConnectionError, OSError):
            return


async def half_open(web: WebServer) -> None:
    """Many that say a little and stay, in more than there is room for."""
    opened = [await asyncio.open_connection("127.0.0.1", web.port) for _ in range(100)]
    for _, writer in opened:
        writer.write(b"GET /hello HTTP/1.1\r\nX: ")
    assert (await fetch(web.port, "/hello")).status == 200
    assert web.connections <= 33
    for _, writer in opened:
        writer.transport.abort()


async def pipeline_flood(web: WebServer) -> None:
    """Two hundred requests, and nobody who reads the answers."""
    async with client(web.port) as connection:
        connection.writer.write(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n" * 200)
        await asyncio.sleep(0.01)


async def connection_flood(web: WebServer) -> None:
    """Connections that come and go without a word."""
    for _ in range(50):
        _, writer = await asyncio.open_connection("127.0.0.1", web.port)
        writer.transport.abort()


FLOODS = [header_flood, body_flood, half_open, pipeline_flood, connection_flood]


@pytest.mark.parametrize("flood", FLOODS)
def test_no_flood_ends_the_server_or_stays_in_its_memory(
    flood: Callable[[WebServer], Awaitable[None]],
):
    async def work() -> tuple[int, int]:
        limits = Limits(head=0.5, idle=0.5, write=0.5, linger=0.05)
        async with server(limits=limits) as web:
            sizes = []
            for rounds in (1, 3):
                for _ in range(rounds):
                    await flood(web)
                    assert (await fetch(web.port, "/hello")).status == 200
                await until(lambda: not web.connections)
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
            return sizes[0], sizes[1]

    tracemalloc.start()
    try:
        before, after = run(work())
    finally:
        tracemalloc.stop()
    assert after - before < 200_000
