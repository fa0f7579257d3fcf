"""The server on real sockets: what it answers, and what it does not bear with."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket

import pytest
from support.aio import run, until
from support.web import HELLO, client, fetch, server, talk

from gpu_device_plugin.web.address import Address
from gpu_device_plugin.web.connection import LARGEST_HEAD, Limits
from gpu_device_plugin.web.guard import Guard
from gpu_device_plugin.web.messages import Request, Response, Route
from gpu_device_plugin.web.server import WebServer

QUICK = Limits(head=0.05, idle=0.05, write=0.05, linger=0.05)


def one(handler, **options):
    return {"/x": Route(handler, **options)}


def test_a_path_is_answered_with_the_headers_of_every_answer():
    async def work():
        async with server() as web:
            reply = await fetch(web.port, "/hello")
            assert (reply.status, reply.text) == (200, "hello\n")
            assert reply.headers["content-type"] == "text/plain; charset=utf-8"
            assert reply.headers["cache-control"] == "no-store"
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["x-frame-options"] == "DENY"
            assert reply.headers["referrer-policy"] == "no-referrer"
            assert "default-src 'none'" in reply.headers["content-security-policy"]
            assert reply.headers["date"].endswith(" GMT")
            assert "server" not in reply.headers

    run(work())


def test_handlers_may_wait_and_get_query_and_accept():
    seen = list[Request]()

    async def answer(request: Request) -> Response:
        await asyncio.sleep(0)
        seen.append(request)
        return Response.of_text(200, "later", X_More="yes")

    async def work():
        async with server(one(answer)) as web:
            reply = await fetch(web.port, "/x?a=1&b=%20", {"Accept": "text/html"})
            assert reply.headers["x-more"] == "yes"

    run(work())
    assert seen == [Request("/x", "a=1&b=%20", "text/html", is_trusted=True)]


def test_a_connection_serves_one_request_after_the_other():
    async def work():
        async with server() as web, client(web.port) as connection:
            for _ in range(3):
                assert (await connection.get("/hello")).status == 200
            assert web.connections == 1
            last = await connection.get("/hello", {"Connection": "close"})
            assert last.headers["connection"] == "close"
            assert await connection.closed() == b""

    run(work())


def test_requests_that_are_sent_together_are_answered_in_order():
    async def work():
        async with server() as web:
            request = b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
            last = b"GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            answers = await talk(web.port, request * 3 + last)
            assert answers.count(b"200 OK") == 3
            assert answers.rindex(b"200 OK") < answers.index(b"404 Not Found")

    run(work())


def test_http_1_0_is_served_and_closed_also_from_a_client_that_is_done_sending():
    async def work():
        async with server() as web:
            answer = await talk(web.port, b"GET /hello HTTP/1.0\r\n\r\n", ends=True)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"\r\n\r\nhello\n")

    run(work())


def test_a_target_with_scheme_and_host_is_its_path():
    async def work():
        async with server() as web:
            assert (await fetch(web.port, "http://127.0.0.1/hello")).status == 200
            assert (await fetch(web.port, "http://127.0.0.1")).status == 404

    run(work())


def test_what_is_not_there_is_not_repeated():
    async def work():
        async with server() as web:
            for path in ("/<script>", "/hello/", "//hello", "/%68ello", "/../hello", "*"):
                reply = await fetch(web.port, path)
                assert (reply.status, reply.text) == (404, "not found; there are /hello\n")

    run(work())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"])
def test_only_get_is_answered(method):
    async def work():
        async with server() as web:
            reply = await fetch(web.port, "/hello", method=method)
            assert (reply.status, reply.headers["allow"]) == (405, "GET")
            assert reply.headers["connection"] == "close"

    run(work())


def test_head_is_refused_without_a_body():
    async def work():
        async with server() as web:
            answer = await talk(web.port, b"HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 405 ")
            assert answer.endswith(b"\r\n\r\n")

    run(work())


@pytest.mark.parametrize(
    "header", [b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Content-Length: 99999999999"]
)
def test_bodies_are_refused_before_they_are_read(header):
    async def work():
        async with server() as web:
            data = b"GET /hello HTTP/1.1\r\nHost: a\r\n" + header + b"\r\n\r\n" + b"x" * 100_000
            answer = await talk(web.port, data, ends=True)
            assert answer.startswith(b"HTTP/1.1 413 ")
            assert b"requests have no body" in answer

    run(work())


def test_a_body_of_no_bytes_is_none():
    async def work():
        async with server() as web:
            assert (await fetch(web.port, "/hello", {"Content-Length": "0"})).status == 200

    run(work())


def padded(size: int) -> bytes:
    """A request whose head has so many bytes."""
    start, end = b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX: ", b"\r\n\r\n"
    return start + b"a" * (size - len(start) - len(end)) + end


@pytest.mark.parametrize(("size", "status"), [(LARGEST_HEAD, b"200"), (LARGEST_HEAD + 1, b"431")])
def test_a_head_has_a_size_at_most(size, status):
    async def work():
        async with server() as web:
            assert (await talk(web.port, padded(size))).startswith(b"HTTP/1.1 " + status)

    run(work())


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /hello HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nno header\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", b"501"),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"405"),
        (b"GET / HTTP/2.0\r\n\r\n", b"505"),
    ],
)
def test_what_is_no_good_http_is_told_so(data, status):
    async def work():
        async with server() as web:
            assert (await talk(web.port, data)).startswith(b"HTTP/1.1 " + status)
            assert (await fetch(web.port, "/hello")).status == 200

    run(work())


def test_a_client_that_goes_in_the_middle_of_its_request_is_forgotten():
    async def work():
        async with server() as web:
            assert await talk(web.port, b"GET /hel", ends=True) == b""
            await until(lambda: not web.connections)

    run(work())


def test_a_request_that_trickles_ends_in_time():
    async def work():
        async with server(limits=QUICK) as web, client(web.port) as connection:
            connection.writer.write(b"GET /hello HT")
            assert (await connection.closed()).startswith(b"HTTP/1.1 408 ")

    run(work())


def test_a_client_that_says_nothing_is_closed_without_a_word():
    async def work():
        async with server(limits=QUICK) as web:
            async with client(web.port) as connection:
                assert await connection.closed() == b""
            async with client(web.port) as connection:
                await connection.get("/hello")
                assert await connection.closed() == b""

    run(work())


def test_the_next_request_on_a_connection_has_its_own_time():
    async def work():
        limits = Limits(head=0.05, idle=9)
        async with server(limits=limits) as web, client(web.port) as connection:
            await connection.get("/hello")
            connection.writer.write(b"GET /hello HT")
            assert (await connection.closed()).startswith(b"HTTP/1.1 408 ")

    run(work())


def test_a_client_that_does_not_read_is_dropped():
    large = one(lambda _: Response(200, body=b"x" * 50_000_000))

    async def work():
        async with server(large, limits=QUICK) as web, client(web.port) as connection:
            connection.writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            await until(lambda: web.connections == 1)
            await until(lambda: web.connections == 0)

    run(work())


def test_who_idles_longest_makes_room_for_a_probe(caplog):
    async def work():
        async with server(most=2) as web, client(web.port) as oldest, client(web.port) as newer:
            await oldest.get("/hello")
            await newer.get("/hello")
            assert (await fetch(web.port, "/hello")).status == 200
            assert await oldest.closed() == b""
            assert (await newer.get("/hello")).status == 200
            assert web.connections <= 2

    run(work())
    assert "more than 2 connections: the one that idles longest is closed" in caplog.text


def test_where_everybody_is_being_answered_the_next_one_is_turned_away():
    go = asyncio.Event()

    async def slow(_: Request) -> Response:
        await go.wait()
        return Response.of_text(200, "at last")

    async def work():
        async with server(one(slow), most=1) as web:
            first = asyncio.create_task(fetch(web.port, "/x"))
            await until(lambda: web.connections == 1)
            while not (await talk(web.port, b"")).startswith(b"HTTP/1.1 503 "):
                pass
            go.set()
            assert (await first).text == "at last\n"

    run(work())


def test_a_handler_that_fails_is_one_line_to_the_client_and_told_once_to_the_log(caplog):
    fails = True

    def answer(_: Request) -> Response:
        if fails:
            raise ZeroDivisionError("secret")
        return Response.of_text(200, "fine")

    async def work():
        nonlocal fails
        async with server(one(answer)) as web:
            for _ in range(3):
                reply = await fetch(web.port, "/x")
                assert reply.status == 500
                assert reply.text == "internal error; the program's log has it\n"
            assert caplog.text.count("Traceback") == 1
            fails = False
            assert (await fetch(web.port, "/x")).status == 200
            fails = True
            await fetch(web.port, "/x")
            assert caplog.text.count("Traceback") == 2

    run(work())


def test_a_handler_that_takes_too_long_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr("gpu_device_plugin.web.server.HANDLER_SECONDS", 0.02)

    async def answer(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def work():
        async with server(one(answer)) as web:
            assert (await fetch(web.port, "/x")).status == 503

    run(work())
    assert "/x is not answered within 0.02 s" in caplog.text


def test_what_is_large_is_compressed_for_who_asks():
    body = b"metric 1\n" * 1000
    routes = {
        "/large": Route(lambda _: Response(200, body=body, may_be_compressed=True)),
        "/small": Route(lambda _: Response(200, body=b"few", may_be_compressed=True)),
        "/fixed": Route(lambda _: Response(200, body=body)),
    }

    async def work():
        async with server(routes) as web:
            packed = await fetch(web.port, "/large", {"Accept-Encoding": "br, gzip"})
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.headers["vary"] == "Accept-Encoding"
            assert len(packed.body) < 200
            assert gzip.decompress(packed.body) == body
            plain = await fetch(web.port, "/large")
            assert (plain.body, plain.headers["vary"]) == (body, "Accept-Encoding")
            for path in ("/small", "/fixed"):
                reply = await fetch(web.port, path, {"Accept-Encoding": "gzip"})
                assert "content-encoding" not in reply.headers

    run(work())


def test_a_port_in_use_is_told_once_and_tried_again(caplog):
    async def work():
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            web = WebServer(Address("127.0.0.1", port), HELLO, guard=Guard(), pause=0.01)
            async with web:
                await until(lambda: "address already in use" in caplog.text)
                await asyncio.sleep(0.05)
                assert not web.is_listening.is_set()
                other.close()
                await web.is_listening.wait()
                assert (await fetch(port, "/hello")).status == 200

    run(work())
    assert caplog.text.count("metrics, probes and status are not served") == 1
    assert "--metrics-address 127.0.0.1:" in caplog.text


def test_the_log_tells_where_and_what_is_served(caplog):
    caplog.set_level(logging.INFO)

    async def work():
        async with server() as web:
            return web.port

    port = run(work())
    assert f"serving HTTP at 127.0.0.1:{port}: /hello" in caplog.text


def test_a_process_out_of_file_descriptors_goes_on_later(monkeypatch, caplog):
    monkeypatch.setattr("gpu_device_plugin.web.server.FIRST_PAUSE", 0.01)

    async def work():
        loop = asyncio.get_running_loop()
        accept, failures = loop.sock_accept, [OSError(24, "Too many open files")] * 2

        async def failing(sock):
            if failures:
                raise failures.pop()
            return await accept(sock)

        monkeypatch.setattr(loop, "sock_accept", failing)
        async with server() as web:
            assert (await fetch(web.port, "/hello")).status == 200

    run(work())
    assert caplog.text.count("a connection cannot be accepted: too many open files") == 1


def test_an_error_of_the_program_ends_serving_with_a_word_in_the_log(monkeypatch, caplog):
    async def work():
        loop = asyncio.get_running_loop()

        async def failing(_):
            raise ZeroDivisionError

        monkeypatch.setattr(loop, "sock_accept", failing)
        async with WebServer(Address("127.0.0.1", 0), HELLO):
            await until(lambda: "are not served any more" in caplog.text)

    run(work())


def test_an_error_in_a_connection_ends_that_one_alone(monkeypatch, caplog):
    async def failing(*_: object) -> Response:
        raise ZeroDivisionError

    async def work():
        async with server() as web:
            with monkeypatch.context() as patch:
                patch.setattr(web, "_answer", failing)
                assert await talk(web.port, b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n") == b""
            assert (await fetch(web.port, "/hello")).status == 200

    run(work())
    assert caplog.text.count("a connection has failed") == 1


def test_stopping_closes_what_is_open():
    async def work():
        async with server() as web:
            async with client(web.port) as connection:
                await connection.get("/hello")
                await web.__aexit__(None, None, None)
                assert await connection.closed() == b""
            with pytest.raises(OSError, match=r"."):
                await asyncio.open_connection("127.0.0.1", web.port)

    run(work())


def test_every_address_serves_both_kinds():
    async def work():
        async with WebServer(Address("", 0), HELLO, guard=Guard()) as web:
            await web.is_listening.wait()
            assert (await fetch(web.port, "/hello")).status == 200
            async with client(web.port, host="::1") as connection:
                assert (await connection.get("/hello")).status == 200

    if socket.has_dualstack_ipv6():
        run(work())


def test_localhost_is_all_that_it_stands_for():
    async def work():
        async with WebServer(Address("localhost", 0), HELLO) as web:
            await web.is_listening.wait()
            assert (await fetch(web.port, "/hello", {"Host": "localhost"})).status == 200

    run(work())
