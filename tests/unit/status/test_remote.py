"""A running program asked for its status: addresses, tokens, TLS, and whatever may answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.aio import run, until
from support.certificates import OPENSSL, Certificates, make_certificates
from support.local_statuses import hardware, status_of

from gpu_device_plugin.errors import UsageError, UserError
from gpu_device_plugin.status import remote_source
from gpu_device_plugin.status.document import to_json
from gpu_device_plugin.status.remote_source import (
    Address,
    Credentials,
    RemoteSource,
    parse_address,
)

STATUS = status_of(hardware())


class Program:
    """Answers every request by what it is told to, and keeps the requests."""

    def __init__(self, body: bytes, status: str = "200 OK") -> None:
        self.body = body
        self.status = status
        self.requests: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head.decode())
        length = f"Content-Length: {len(self.body)}"
        writer.write(f"HTTP/1.1 {self.status}\r\n{length}\r\n\r\n".encode() + self.body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


class Babbler(Program):
    """Says the same whatever is said to it."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(self.body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def listening(program: Program, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    serving = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await program.serve(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*serving)
        # The server's side of a handshake that failed ends a little later.
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


def told(program: Program, credentials: Credentials | None = None) -> str:
    """What goes wrong when a program is asked."""

    async def work() -> str:
        async with listening(program) as address:
            with pytest.raises(UserError) as caught:
                await RemoteSource(parse_address(address), credentials).look()
            return str(caught.value).replace(address, "HOST")

    text = run(work())
    assert text.isprintable()
    return text


# ------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9440", Address("http", "127.0.0.1", 9440)),
        (":9440", Address("http", "127.0.0.1", 9440)),
        ("node-1:80", Address("http", "node-1", 80)),
        ("[::1]:9440", Address("http", "::1", 9440)),
        ("http://node-1", Address("http", "node-1", 80)),
        ("https://node-1", Address("https", "node-1", 443)),
        ("https://node-1:9440/", Address("https", "node-1", 9440)),
        ("http://proxy/node-1/", Address("http", "proxy", 80, "/node-1")),
        ("http://node-1:9440/status.json", Address("http", "node-1", 9440)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node-1",
        "node-1:",
        "node-1:x",
        "node-1:70000",
        "node-1:0",
        "ftp://node-1:21",
        "http://",
        "http://me@node-1:80",
        "http://node-1:80?x=1",
        "http://node-1:80#x",
        "http://[::1:80",
        "node 1:80",
        "node-1:80\r\nX: y",
        "nöde:80",
    ],
)
def test_what_is_no_address_is_refused_by_name(text):
    with pytest.raises(UsageError, match=r"^GPU_NODE_ADDRESS .*expected HOST:PORT or URL"):
        parse_address(text, "GPU_NODE_ADDRESS")


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_an_address_or_refused(text):
    with suppress(UsageError):
        again = parse_address(str(parse_address(text)))
        assert 0 < again.port < 65536


# ------------------------------------------------------------------ answers


def test_the_status_is_what_the_program_tells():
    async def work():
        program = Program(to_json(STATUS).encode())
        async with listening(program) as address:
            source = RemoteSource(parse_address(f"http://{address}/below"))
            look = await source.look()
            source.close()
        assert look.status == STATUS
        (request,) = program.requests
        assert request.startswith("GET /below/status.json HTTP/1.1\r\n")
        assert f"Host: {address}\r\n" in request
        assert "Authorization" not in request

    run(work())


def test_a_program_that_does_not_know_its_node_is_known_by_its_address():
    async def work():
        nameless = Program(to_json(replace(STATUS, node="")).encode())
        async with listening(nameless) as address:
            return (await RemoteSource(parse_address(address)).look()).status.node

    assert run(work()) == "127.0.0.1"


def test_a_token_is_read_anew_for_each_look(tmp_path):
    token = tmp_path / "token"

    async def work():
        program = Program(to_json(STATUS).encode())
        async with listening(program) as address:
            source = RemoteSource(parse_address(address), Credentials(token_file=str(token)))
            for text in ("one\n", "two"):
                token.write_text(text)
                await source.look()
        return program.requests

    first, second = run(work())

    assert "Authorization: Bearer one\r\n" in first
    assert "Authorization: Bearer two\r\n" in second


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"a b", "holds characters that no token has"),
        (b"a\r\nX: y", "holds characters that no token has"),
        (b"\xff", "cannot be read: it is no text"),
        (b"x" * 16385, "is too large for a token"),
    ],
)
def test_a_token_that_cannot_be_used_is_told_and_not_shown(tmp_path, content, words):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    text = told(Program(b""), Credentials(token_file=str(file)))

    assert text == f"the token file {file} {words}"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            "401 Unauthorized",
            "401 (it wants a token: --token-file, or GPU_NODE_TOKEN_FILE, names its file)",
        ),
        ("404 Not Found", "404 (its --metrics-endpoints must contain status)"),
        ("503 Service Unavailable", "503"),
    ],
)
def test_refusals_are_told_with_what_helps(status, words):
    assert told(Program(b"no", status)) == f"the program at http://HOST refuses its status: {words}"


def test_a_token_that_is_not_accepted_is_named(tmp_path):
    (tmp_path / "token").write_text("secret")

    text = told(Program(b"", "403 Forbidden"), Credentials(token_file=str(tmp_path / "token")))

    assert text.endswith(f"403 (it does not accept the token in {tmp_path}/token)")
    assert "secret" not in text


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"schema": "other"}', b"[1]", b"\xff"])
def test_something_else_is_told(body):
    text = told(Program(body))

    assert text.startswith("the program at http://HOST answers with something else: not a status")
    assert text.endswith("(is this the port of --metrics-address?)")


def test_an_answer_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(remote_source, "LARGEST", 10)

    assert told(Program(b"x" * 11)) == "the program answers with more than 10 bytes"


# ------------------------------------------------------------------ no answers


def test_a_port_where_nobody_listens_is_told_with_the_option_that_opens_it():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(UserError) as caught:
            run(RemoteSource(parse_address(f":{port}")).look())

    assert str(caught.value) == (
        f"the program cannot be reached at 127.0.0.1:{port}: connection refused "
        "(--metrics-address (GPU_NODE_METRICS_ADDRESS) of the program opens the port)"
    )


def test_a_program_that_hangs_is_not_waited_for_longer_than_the_deadline():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = parse_address(f":{deaf.getsockname()[1]}")
        with pytest.raises(UserError, match=r"did not answer within 0.05 s"):
            run(RemoteSource(address, deadline=0.05).look())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=200))
def test_nonsense_is_a_problem_in_one_line(nonsense):
    assert told(Babbler(nonsense))


# ------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if OPENSSL is None:
        pytest.skip("openssl makes the certificates")
    return make_certificates(tmp_path_factory.mktemp("ca"))


def secured(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    return context


def look_by_tls(certificates: Certificates, scheme: str, credentials: Credentials) -> str:
    """What goes wrong with a program that serves HTTPS; empty if nothing does."""

    async def work() -> str:
        async with listening(Program(to_json(STATUS).encode()), secured(certificates)) as address:
            try:
                await RemoteSource(parse_address(f"{scheme}://{address}"), credentials).look()
            except UserError as error:
                return str(error)
            return ""

    return run(work())


def test_a_program_is_trusted_by_its_authority(certificates):
    assert not look_by_tls(certificates, "https", Credentials(ca_file=str(certificates.authority)))


def test_a_program_may_be_trusted_whoever_it_is(certificates):
    assert not look_by_tls(certificates, "https", Credentials(verify=False))


def test_an_unknown_authority_is_told_with_the_options_that_help(certificates):
    text = look_by_tls(certificates, "https", Credentials())

    assert "its certificate is not accepted" in text
    assert text.endswith("(--ca-file names the authority, --insecure trusts whoever answers)")


def test_http_to_a_port_with_tls_is_told(certificates):
    text = look_by_tls(certificates, "http", Credentials())

    assert "https:// before the address asks by TLS" in text or "closed the connection" in text


def test_tls_to_a_port_without_it_is_told():
    async def work():
        async with listening(Babbler(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
            with pytest.raises(UserError, match=r"\(http:// before the address asks without TLS\)"):
                await RemoteSource(
                    parse_address(f"https://{address}"), Credentials(verify=False)
                ).look()

    run(work())


def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path):
    address = parse_address("https://127.0.0.1:1")
    with pytest.raises(UserError, match=r"^--ca-file: the certificate authority cannot be used"):
        run(RemoteSource(address, Credentials(ca_file=str(tmp_path / "none"))).look())
