"""Certificates and tokens, as they are and when they change; who is misled by a name."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from base64 import b64encode
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.aio import run
from support.certificates import OPENSSL, make_certificates
from support.web import client, fetch, server, talk, trusting

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.web.guard import Guard
from gpu_device_plugin.web.messages import Response, Route
from gpu_device_plugin.web.tls import ServerTls, server_tls
from gpu_device_plugin.web.token import TokenFile

with_openssl = pytest.mark.skipif(OPENSSL is None, reason="makes certificates with openssl")


def put(path, text):
    """Replaces a file in one step, as the kubelet does."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(text if isinstance(text, bytes) else text.encode())
    fresh.replace(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    if OPENSSL is None:
        pytest.skip("makes certificates with openssl")
    return [make_certificates(tmp_path_factory.mktemp("tls")) for _ in range(2)]


@pytest.fixture
def files(made, tmp_path):
    """Copies of the first certificate and key, which may be replaced."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    put(certificate, made[0].server.read_bytes())
    put(key, made[0].server_key.read_bytes())
    return certificate, key


def test_https_is_served(made, files):
    async def work():
        async with server(tls=ServerTls(*map(str, files))) as web:
            reply = await fetch(web.port, "/hello", tls=trusting(str(made[0].authority)))
            assert reply.text == "hello\n"

    run(work())


def test_a_certificate_that_was_replaced_is_taken_for_the_next_connection(made, files, caplog):
    caplog.set_level("INFO")

    async def work():
        old, new = (trusting(str(each.authority)) for each in made)
        async with server(tls=ServerTls(*map(str, files))) as web:
            async with client(web.port, old) as before:
                put(files[0], made[1].server.read_bytes())
                put(files[1], made[1].server_key.read_bytes())
                assert (await fetch(web.port, "/hello", tls=new)).status == 200
                assert (await before.get("/hello")).status == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await fetch(web.port, "/hello", tls=old)

    run(work())
    assert f"the certificate of the port is {files[0]} as it is now" in caplog.text


def test_half_a_replacement_changes_nothing(made, files, caplog):
    tls = ServerTls(*map(str, files))
    before = tls.current()
    put(files[0], made[1].server.read_bytes())
    assert tls.current() is before
    assert tls.current() is before
    assert caplog.text.count("the former certificate stays in use") == 1
    put(files[1], made[1].server_key.read_bytes())
    assert tls.current() is not before


@with_openssl
def test_files_that_cannot_be_opened_for_a_moment_are_read_later(made, files, monkeypatch, caplog):
    tls = ServerTls(*map(str, files))
    before = tls.current()
    for mine, fresh in zip(files, (made[1].server, made[1].server_key), strict=True):
        put(mine, fresh.read_bytes())
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", too_many)
        assert tls.current() is before
        assert tls.current() is before
    assert "Too many open files" in caplog.text
    assert caplog.text.count("the former certificate stays in use") == 1
    assert tls.current() is not before, "the files are as they were when they could not be read"


def test_a_token_that_cannot_be_opened_for_a_moment_is_read_later(token, monkeypatch, caplog):
    known = TokenFile(str(token))
    put(token, "another")
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", too_many)
        for _ in range(2):
            assert known.accepts("Bearer s3cret-token")
    assert caplog.text.count("the former token stays in force") == 1
    assert known.accepts("Bearer another")


def test_a_fault_that_comes_again_is_told_again(files, token, caplog):
    """The files are the very same in between: moved away and back."""
    known, tls = TokenFile(str(token)), ServerTls(*map(str, files))
    for _ in range(2):
        for path in (token, files[1]):
            path.rename(path.with_suffix(".away"))
        for _ in range(2):
            assert known.accepts("Bearer s3cret-token")
            tls.current()
        for path in (token, files[1]):
            path.with_suffix(".away").rename(path)
        assert known.accepts("Bearer s3cret-token")
        tls.current()
    assert caplog.text.count("the former token stays in force") == 2
    assert caplog.text.count("the former certificate stays in use") == 2


def too_many(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_old_tls_is_not_spoken(made, files):
    async def work():
        context = trusting(str(made[0].authority))
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        async with server(tls=ServerTls(*map(str, files))) as web:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await fetch(web.port, "/hello", tls=context)

    run(work())


def test_http_where_https_is_served_is_told_to_the_log(files, caplog):
    async def work():
        async with server(tls=ServerTls(*map(str, files))) as web:
            for _ in range(3):
                await talk(web.port, b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
            await talk(web.port, b"\x16\x03\x01\x00\x05hello", ends=True)

    run(work())
    assert caplog.text.count("a client speaks HTTP to a port that serves HTTPS") == 1
    assert "TLS with a client has failed" in caplog.text


@with_openssl
@pytest.mark.parametrize(
    ("contents", "why"),
    [
        ((b"", b""), "cannot be used for TLS"),
        ((b"no PEM", b"no PEM"), "cannot be used for TLS"),
        ((None, b""), "--metrics-tls-cert-file (GPU_NODE_METRICS_TLS_CERT_FILE): "),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path, contents, why):
    paths = [tmp_path / "tls.crt", tmp_path / "tls.key"]
    for path, content in zip(paths, contents, strict=True):
        if content is not None:
            path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        ServerTls(*map(str, paths))
    assert why in str(caught.value)
    assert str(paths[0]) in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_certificate_wants_its_key(made):
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        server_tls(str(made[0].server), str(made[1].server_key))
    with pytest.raises(ConfigError, match=r"CERT_FILE\) is set without its other half \(set --met"):
        server_tls(str(made[0].server), "")
    with pytest.raises(ConfigError, match=r"KEY_FILE\) is set without"):
        server_tls("", str(made[0].server_key))
    assert server_tls("", "") is None
    assert server_tls(str(made[0].server), str(made[0].server_key)) is not None


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text("s3cret-token\n")
    return path


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def test_a_token_is_a_bearer_token_or_a_password(token):
    known = TokenFile(str(token))
    assert known.accepts("Bearer s3cret-token")
    assert known.accepts("bearer   s3cret-token ")
    assert known.accepts(basic("anybody", "s3cret-token"))
    for wrong in (
        "",
        "Bearer",
        "Bearer ",
        "Bearer s3cret-toke",
        "Bearer s3cret-token2",
        "s3cret-token",
        "Digest s3cret-token",
        "Basic !",
        basic("s3cret-token", ""),
        "Basic " + b64encode(b"s3cret-token").decode(),
        "Bearer s3cret-token\N{EURO SIGN}",
    ):
        assert not known.accepts(wrong)


@given(st.text())
def test_no_text_but_the_token_is_accepted(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text("x" * 20)
    known = TokenFile(str(path))
    assert not known.accepts(text)
    assert not known.accepts(f"Bearer {text}")
    assert not known.accepts(f"Basic {text}")


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"a\nb", b"\xff\xfe", b"x" * 20000])
def test_what_is_no_token_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"--metrics-token-file \(GPU_NODE_METRICS_TOKEN_FILE\)"):
        TokenFile(str(path))


def test_a_token_file_must_be_there(tmp_path):
    with pytest.raises(ConfigError, match="no-file cannot be read: No such file"):
        TokenFile(str(tmp_path / "no-file"))


def test_a_token_that_was_replaced_counts_at_once_and_a_bad_one_does_not(token, caplog):
    caplog.set_level("INFO")
    known = TokenFile(str(token))
    put(token, "another")
    assert not known.accepts("Bearer s3cret-token")
    assert known.accepts("Bearer another")
    for bad in ("", "a b"):
        put(token, bad)
        assert known.accepts("Bearer another")
        assert not known.accepts("Bearer ")
    os.unlink(token)
    assert known.accepts("Bearer another")
    assert caplog.text.count("the former token stays in force") == 3
    assert "another" not in caplog.text


def test_without_the_token_only_open_routes_answer_and_know_it(token):
    routes = {
        "/open": Route(
            lambda request: Response.of_text(200, f"trusted {request.is_trusted}"), is_open=True
        ),
        "/closed": Route(lambda _: Response.of_text(200, "all")),
    }

    async def work():
        async with server(routes, guard=Guard(TokenFile(str(token)))) as web:
            known = {"Authorization": "Bearer s3cret-token"}
            assert (await fetch(web.port, "/open")).text == "trusted False\n"
            assert (await fetch(web.port, "/open", known)).text == "trusted True\n"
            for path in ("/closed", "/none"):
                denied = await fetch(web.port, path)
                assert denied.status == 401
                assert denied.headers["www-authenticate"].startswith('Basic realm="gpu-node"')
                script = await fetch(web.port, path, {"X-Requested-With": "page"})
                assert script.status == 401
                assert script.headers["www-authenticate"] == 'Bearer realm="gpu-node"'
            assert (await fetch(web.port, "/closed", known)).text == "all\n"
            assert (await fetch(web.port, "/none", known)).status == 404

    run(work())


@pytest.mark.parametrize(
    ("host", "is_misled"),
    [
        ("127.0.0.1:9440", False),
        ("[::1]:9440", False),
        ("10.1.2.3", False),
        ("localhost", False),
        ("LOCALHOST.:80", False),
        ("gpu-1", False),
        ("plugin.gpu.svc:9440", False),
        ("plugin.gpu.svc.cluster.local", False),
        ("node.example.com", False),
        ("", False),
        ("evil.example.org", True),
        ("127.0.0.1.evil.example", True),
        ("localhost.evil.example:9440", True),
        ("evil.example.", True),
        ("[::1].evil.example", False),  # is what no browser sends
    ],
)
def test_a_strangers_name_for_a_loopback_address_misleads(host, is_misled):
    guard = Guard(own_name="node.example.com")
    for local in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert guard.is_misled(host, local) is is_misled
    for elsewhere in ("10.1.2.3", "fe80::1%eth0", ""):
        assert not guard.is_misled(host, elsewhere)


def test_with_token_or_tls_any_name_will_do(token):
    assert not Guard(token=TokenFile(str(token))).is_misled("evil.example", "127.0.0.1")
    assert not Guard(is_tls=True).is_misled("evil.example", "127.0.0.1")


def test_who_is_misled_learns_nothing():
    async def work():
        async with server() as web:
            for path in ("/hello", "/none"):
                reply = await fetch(web.port, path, {"Host": "evil.example"})
                assert reply.status == 421
                assert "evil" not in reply.text

    run(work())


def test_handshakes_have_an_end(files):
    from gpu_device_plugin.web.connection import Limits  # noqa: PLC0415

    async def work():
        limits = Limits(head=0.05)
        async with server(tls=ServerTls(*map(str, files)), limits=limits) as web:
            _, writer = await asyncio.open_connection("127.0.0.1", web.port)
            async with asyncio.timeout(5):
                while web.connections:  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.005)
            writer.transport.abort()

    run(work())
