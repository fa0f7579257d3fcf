from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest
from support.aio import run, until, within
from support.apiserver import ApiServer
from support.certificates import Certificates, make_certificates

from gpu_device_plugin.kube.access import Access, Tls, load_access
from gpu_device_plugin.kube.client import KubeClient, PatchKind, path
from gpu_device_plugin.kube.errors import AccessError, ApiError, ApiUnreachable
from gpu_device_plugin.kube.tls import TlsContexts

NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/node1"
POD = "/api/v1/namespaces/gpu/pods/pod-1"


def a_client(server: ApiServer, **settings: Any) -> KubeClient:
    return KubeClient(Access(server.url, "tests"), **settings)


def test_objects_are_read_created_replaced_and_patched(api: ApiServer) -> None:
    async def work() -> None:
        async with a_client(api) as client:
            item = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-1"}}
            created = await client.create("/api/v1/namespaces/gpu/pods", item)
            assert created["metadata"]["namespace"] == "gpu"
            created["metadata"]["labels"] = {"a": "b"}
            replaced = await client.replace(POD, created)
            assert replaced["metadata"]["labels"] == {"a": "b"}
            patched = await client.patch(POD, {"metadata": {"labels": {"c": "d"}}})
            assert patched["metadata"]["labels"] == {"a": "b", "c": "d"}
            assert await client.get(POD) == patched
            listed = await client.get("/api/v1/namespaces/gpu/pods")
            assert listed["items"] == [patched]

    run(work())
    assert {s.connection for s in api.seen} == {1}
    assert api.seen[0].headers["user-agent"].startswith("gpu-device-plugin/v")
    assert api.seen[2].headers["content-type"] == PatchKind.MERGE


@pytest.mark.parametrize(
    ("status", "reason", "property_name"),
    [
        (401, "Unauthorized", "is_denied"),
        (403, "Forbidden", "is_denied"),
        (404, "NotFound", "is_not_found"),
        (409, "Conflict", "is_conflict"),
        (410, "Expired", "is_gone"),
        (429, "TooManyRequests", "is_transient"),
        (500, "InternalError", "is_transient"),
        (504, "Timeout", "is_transient"),
    ],
)
def test_a_refusal_tells_status_reason_and_message(
    api: ApiServer, status: int, reason: str, property_name: str
) -> None:
    api.fail("GET", NODE, status=status, message="because\nof it")

    async def work() -> ApiError:
        async with a_client(api) as client:
            with pytest.raises(ApiError) as caught:
                await client.get(NODE)
            return caught.value

    error = run(work())
    assert (error.status, error.reason) == (status, reason)
    assert getattr(error, property_name)
    assert f"GET {NODE}: {status} {reason}: because of it" in str(error)


def test_a_refusal_without_status_object_is_told_all_the_same(api: ApiServer) -> None:
    body = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\nRetry-After: 7\r\n\r\nno way"
    api.fail("GET", NODE, raw=body)

    async def work() -> ApiError:
        async with a_client(api) as client:
            with pytest.raises(ApiError) as caught:
                await client.get(NODE)
            return caught.value

    error = run(work())
    assert str(error).endswith("502 Bad Gateway: no way")
    assert error.retry_after == 7


def test_a_refusal_of_any_shape_is_told(api: ApiServer) -> None:
    bodies = [
        b"[" * 100_000,
        b'{"reason": {"a": 1}, "message": ["m"]}',
        b'{"message": "' + b"x" * 10,
    ]
    for body in bodies:
        head = b"HTTP/1.1 500 X\r\nContent-Length: %d\r\n\r\n" % len(body)
        api.fail("GET", NODE, raw=head + body)

    async def work() -> None:
        async with a_client(api) as client:
            for _ in bodies:
                with pytest.raises(ApiError) as caught:
                    await client.get(NODE)
                assert caught.value.reason == "Internal Server Error"

    run(work())


@pytest.mark.parametrize("value", ["-5", "soon", "1e9", "nan", "inf", "-inf"])
def test_a_wait_that_makes_no_sense_is_limited(api: ApiServer, value: str) -> None:
    api.fail("GET", NODE, raw=f"HTTP/1.1 503 X\r\nRetry-After: {value}\r\n\r\n".encode())

    async def work() -> float:
        async with a_client(api) as client:
            with pytest.raises(ApiError) as caught:
                await client.get(NODE)
            return caught.value.retry_after

    assert 0 <= run(work()) <= 120


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<htm>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
    ],
)
def test_half_answers_and_other_protocols_are_no_answer(api: ApiServer, raw: bytes) -> None:
    api.fail("GET", NODE, raw=raw, times=2)

    async def work() -> None:
        async with a_client(api) as client:
            with pytest.raises(ApiUnreachable) as caught:
                await client.get(NODE)
            assert "\n" not in str(caught.value)
            api.store.put(NODE)
            api.fail("GET", NODE, times=0)
            api._faults.clear()
            assert (await client.get(NODE))["metadata"]["name"] == "node1"

    run(work())


def test_a_server_that_is_silent_is_given_up(api: ApiServer) -> None:
    api.fail("GET", NODE, hang=True)

    async def work() -> None:
        async with a_client(api, request_seconds=0.1) as client:
            with pytest.raises(ApiUnreachable, match=r"does not answer GET .* within 0.1 s"):
                await client.get(NODE)

    run(work())


def test_a_port_that_is_closed_is_told(api: ApiServer) -> None:
    api.stop()

    async def work() -> None:
        async with a_client(api) as client:
            with pytest.raises(ApiUnreachable, match=r"127.0.0.1:\d+: connection refused"):
                await client.get(NODE)

    run(work())


def test_a_name_that_is_not_known_is_told() -> None:
    async def work() -> None:
        async with KubeClient(Access("http://nowhere.invalid", "tests")) as client:
            with pytest.raises(ApiUnreachable, match=r"nowhere.invalid:80"):
                await client.get(NODE)

    run(work())


def test_of_the_addresses_of_a_name_the_first_that_answers_is_taken(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.store.put(NODE)
    port = int(api.url.rpartition(":")[2])
    places = [("127.0.0.2", port), ("127.0.0.1", port)]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    async def work() -> None:
        async with KubeClient(Access(f"http://api.test:{port}", "tests")) as client:
            assert (await client.get(NODE))["kind"] == "Node"

    run(work())


def test_a_name_that_is_being_looked_up_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A resolver waits for servers that do not answer for tens of seconds."""
    asked, answers = threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> list[object]:
        asked.set()
        answers.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    async def work() -> None:
        async with KubeClient(Access("http://api.test", "tests")) as client:
            task = asyncio.create_task(client.get(NODE))
            await until(asked.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    began = time.monotonic()
    run(work())  # with the end of the loop, which waits for its own lookups
    answers.set()
    assert time.monotonic() - began < 10


def test_a_connection_that_the_server_has_closed_is_replaced(api: ApiServer) -> None:
    api.store.put(NODE)

    async def work() -> None:
        async with a_client(api) as client:
            await client.get(NODE)
            api.stop()
            api.start()
            assert await client.get(NODE)

    run(work())
    assert {s.connection for s in api.seen} == {1, 2}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "the Kubernetes API closed the connection before it answered"),
        (b"hello", "the connection to the Kubernetes API broke: this is not HTTP"),
        (b"\x00\r\n\r\n", "the connection to the Kubernetes API broke: this is not HTTP"),
    ],
)
def test_a_server_without_an_answer_is_told(api: ApiServer, raw: bytes, message: str) -> None:
    api.fail("GET", NODE, raw=raw)

    async def work() -> None:
        async with a_client(api) as client:
            with pytest.raises(ApiUnreachable, match=message):
                await client.get(NODE)

    run(work())


def test_a_creation_is_not_sent_twice(api: ApiServer) -> None:
    item = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}}

    async def work() -> None:
        async with a_client(api) as client:
            await client.get(NODES)
            api.fail("POST", NODES, raw=b"")
            with pytest.raises(ApiUnreachable):
                await client.create(NODES, item)

    run(work())
    assert api.count("POST") == 1


def test_a_replacement_on_a_dead_connection_is_sent_again(api: ApiServer) -> None:
    api.store.put(NODE)

    async def work() -> None:
        async with a_client(api) as client:
            item = await client.get(NODE)
            api.fail("PUT", NODE, raw=b"")
            await client.replace(NODE, item)

    run(work())
    assert api.count("PUT") == 2


def test_a_request_that_is_given_up_does_not_spoil_the_next(api: ApiServer) -> None:
    api.store.put(NODE)
    api.fail("GET", NODE, hang=True)

    async def work() -> None:
        async with a_client(api) as client:
            hanging = asyncio.create_task(client.get(NODE))
            await asyncio.to_thread(api.wait, lambda: api.seen)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            assert await within(5, client.get(NODE))

    run(work())


def test_requests_at_the_same_time_each_get_their_answer(api: ApiServer) -> None:
    for number in range(8):
        api.store.put(f"{NODES}/n{number}")

    async def work() -> None:
        async with a_client(api) as client:
            answers = await asyncio.gather(*(client.get(f"{NODES}/n{n}") for n in range(8)))
        assert [a["metadata"]["name"] for a in answers] == [f"n{n}" for n in range(8)]

    run(work())


def test_more_requests_than_the_burst_have_to_wait(api: ApiServer) -> None:
    api.store.put(NODE)

    async def work() -> float:
        loop = asyncio.get_running_loop()
        async with a_client(api, qps=20, burst=1) as client:
            await client.get(NODE)
            began = loop.time()
            await client.get(NODE)
            return loop.time() - began

    assert run(work()) >= 0.04


def test_an_answer_of_enormous_size_is_refused(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_device_plugin.kube.client.LARGEST", 1000)
    api.store.put(NODE, {"metadata": {"annotations": {"a": "x" * 2000}}})

    async def work() -> None:
        async with a_client(api) as client:
            with pytest.raises(ApiUnreachable, match="more than"):
                await client.get(NODE)

    run(work())


def test_time_that_the_caller_of_a_stream_takes_is_not_the_servers(api: ApiServer) -> None:
    api.store.put(NODE)
    api.bookmarks = False
    query = {"watch": "true", "resourceVersion": "0"}

    async def work() -> None:
        client = a_client(api)
        async with client, aclosing(client.stream(NODES, query, 0.6)) as events:
            assert (await anext(events))["type"] == "ADDED"
            await asyncio.sleep(0.8)
            api.store.delete(NODE)
            assert (await anext(events))["type"] == "DELETED"
            with pytest.raises(ApiUnreachable, match=r"within 0.6 s"):
                await anext(events)

    run(work())


@pytest.mark.parametrize(
    ("drop", "limits", "told"),
    [(b"{", (0.2, 60), "within 0.2 s"), (b"\n", (60, 0.2), "within 0.2 s")],
    ids=["an event without end", "nothing but blank lines"],
)
def test_a_watch_that_comes_byte_by_byte_and_never_tells_anything_is_given_up(
    drop: bytes, limits: tuple[float, float], told: str
) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        event = b'{"type":"ADDED","object":{}}\n'
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + event)
        with suppress(OSError):
            while not writer.is_closing():
                writer.write(drop)
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        request_seconds, silence = limits
        client = KubeClient(Access(url, "tests"), request_seconds=request_seconds)
        async with client, aclosing(client.stream(NODES, {"watch": "true"}, silence)) as events:
            assert (await anext(events))["type"] == "ADDED"
            with pytest.raises(ApiUnreachable, match=told):
                await anext(events)
        server.close()

    run(work())


def test_a_server_that_dies_during_a_watch_is_not_said_to_speak_another_protocol(
    api: ApiServer,
) -> None:
    event = b'{"type":"ADDED","object":{}}\n'
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    api.fail("WATCH", NODES, raw=b"%s%x\r\n%s\r\n" % (head, len(event), event))

    async def work() -> None:
        async with (
            a_client(api) as client,
            aclosing(client.stream(NODES, {"watch": "true"}, 5)) as events,
        ):
            assert (await anext(events))["type"] == "ADDED"
            with pytest.raises(ApiUnreachable, match="closed the connection in an answer"):
                await anext(events)

    run(work())


def test_an_event_of_enormous_size_is_refused(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_device_plugin.kube.client.LARGEST", 1000)
    body = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000
    api.fail("WATCH", NODES, raw=body)

    async def work() -> None:
        async with a_client(api) as client:
            with pytest.raises(ApiUnreachable, match="an event is larger"):
                async with aclosing(client.stream(NODES, {"watch": "true"}, 5)) as events:
                    await anext(events)

    run(work())


def test_the_prefix_of_a_gateway_is_kept() -> None:
    with ApiServer(prefix="/k8s/clusters/c-1") as api:
        api.store.put(NODE)

        async def work() -> None:
            async with a_client(api) as client:
                assert await client.get(NODE)

        run(work())


def test_parts_of_paths_are_escaped() -> None:
    assert path("api", "v1", "nodes", "a/b c") == "/api/v1/nodes/a%2Fb%20c"


class TestCredentials:
    def test_a_token_is_sent_and_followed_when_it_is_replaced(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("one")
        with ApiServer(tokens={"one"}) as api:
            api.store.put(NODE)
            access = load_access(api.kubeconfig(tmp_path, token_file=str(token)))

            async def work() -> None:
                async with KubeClient(access) as client:
                    assert await client.get(NODE)
                    api.tokens = {"two"}
                    with pytest.raises(ApiError, match=r"401 Unauthorized.*token"):
                        await client.get(NODE)
                    token.write_text("two")
                    assert await client.get(NODE)

            run(work())

    def test_the_last_token_is_sent_while_its_file_cannot_be_used(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        token = tmp_path / "token"
        token.write_text("one")
        with ApiServer(tokens={"one"}) as api:
            api.store.put(NODE)
            access = load_access(api.kubeconfig(tmp_path, token_file=str(token)))

            async def work() -> None:
                async with KubeClient(access) as client:
                    assert await client.get(NODE)
                    token.write_text("")
                    for _ in range(2):
                        assert await client.get(NODE)
                    token.unlink()
                    assert await client.get(NODE)
                    api.tokens = {"two"}
                    token.write_text("two")
                    assert await client.get(NODE)

            run(work())
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == 2
        assert told[0].endswith("cannot be used: it is empty; the former token stays in use")
        assert "No such file" in told[1]

    def test_name_and_password_are_sent(self, tmp_path: Path) -> None:
        with ApiServer() as api:
            api.store.put(NODE)
            access = load_access(api.kubeconfig(tmp_path, username="me", password="ü"))

            async def work() -> None:
                async with KubeClient(access) as client:
                    await client.get(NODE)

            run(work())
            assert api.seen[0].headers["authorization"] == "Basic bWU6w7w="

    def test_what_is_forbidden_names_the_role(self, tmp_path: Path) -> None:
        with ApiServer(denied={"get nodes"}) as api:
            access = load_access(api.kubeconfig(tmp_path))

            async def work() -> None:
                async with KubeClient(access) as client:
                    with pytest.raises(ApiError, match=r"403 Forbidden: nodes .*ClusterRole"):
                        await client.get(NODE)

            run(work())


class TestTls:
    def read(self, access: Access) -> None:
        async def work() -> None:
            async with KubeClient(access) as client:
                await client.get(NODE)

        run(work())

    def test_the_servers_certificate_is_checked(
        self, tmp_path: Path, certificates: Certificates
    ) -> None:
        other = make_certificates(tmp_path / "other")
        with ApiServer(certificates=certificates) as api:
            api.store.put(NODE)
            self.read(load_access(api.kubeconfig(tmp_path)))
            self.read(Access(api.url, "tests", Tls(verify=False)))
            self.read(Access(api.url, "tests", Tls(ca_data=certificates.authority.read_bytes())))
            with pytest.raises(ApiUnreachable, match="certificate is not accepted"):
                self.read(Access(api.url, "tests", Tls(ca_file=str(other.authority))))
            with pytest.raises(ApiUnreachable, match="certificate is not accepted"):
                self.read(Access(api.url, "tests", Tls()))

    def test_the_name_in_the_certificate_may_be_given(self, certificates: Certificates) -> None:
        with ApiServer(certificates=certificates) as api:
            api.store.put(NODE)
            authority = str(certificates.authority)
            tls = Tls(ca_file=authority, server_name="kubernetes.default.svc")
            self.read(Access(api.url, "tests", tls))
            with pytest.raises(ApiUnreachable, match="not valid for"):
                self.read(Access(api.url, "tests", Tls(ca_file=authority, server_name="other")))

    def test_a_client_certificate_is_shown_from_files_and_from_data(
        self, certificates: Certificates
    ) -> None:
        with ApiServer(certificates=certificates, client_certificates=True) as api:
            api.store.put(NODE)
            authority = str(certificates.authority)
            files = Tls(
                ca_file=authority,
                certificate_file=str(certificates.client),
                key_file=str(certificates.client_key),
            )
            self.read(Access(api.url, "tests", files))
            data = Tls(
                ca_file=authority,
                certificate_data=certificates.client.read_bytes(),
                key_data=certificates.client_key.read_bytes(),
            )
            self.read(Access(api.url, "tests", data))
            with pytest.raises(ApiUnreachable):
                self.read(Access(api.url, "tests", Tls(ca_file=authority)))

    def test_a_server_without_tls_is_told(self, api: ApiServer) -> None:
        url = api.url.replace("http:", "https:")
        with pytest.raises(ApiUnreachable, match="TLS"):
            self.read(Access(url, "tests", Tls(verify=False)))

    @pytest.mark.parametrize(
        ("tls", "words"),
        [
            (Tls(ca_file="/absent"), "certificate authority .*/absent: No such file"),
            (Tls(ca_data=b"rubbish"), "certificate-authority-data"),
            (Tls(ca_data=b"\xff"), "certificate-authority-data"),
            (Tls(verify=False, certificate_data=b"x", key_data=b"y"), "client-certificate-data"),
            (Tls(verify=False, certificate_file="/absent"), "/absent: No such file"),
        ],
    )
    def test_certificates_that_are_none_are_named(self, tls: Tls, words: str) -> None:
        with pytest.raises(AccessError, match=words):
            self.read(Access("https://127.0.0.1:1", "kubeconfig k", tls))

    def test_a_fault_of_a_certificate_that_comes_again_is_told_again(
        self, tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
    ) -> None:
        authority, away = tmp_path / "ca.crt", tmp_path / "away"
        authority.write_bytes(certificates.authority.read_bytes())
        contexts = TlsContexts(Tls(ca_file=str(authority)), "t")
        first = contexts.current()
        for _ in range(2):
            authority.rename(away)
            assert [contexts.current() for _ in range(2)] == [first] * 2
            away.rename(authority)
            assert contexts.current() is first
        assert caplog.text.count("the former certificates stay in use") == 2

    def test_a_certificate_that_is_replaced_is_followed(
        self, tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
    ) -> None:
        authority = tmp_path / "ca.crt"
        other = make_certificates(tmp_path / "other")
        authority.write_bytes(other.authority.read_bytes())
        with ApiServer(certificates=certificates) as api:
            api.store.put(NODE)

            async def work() -> None:
                async with KubeClient(Access(api.url, "t", Tls(ca_file=str(authority)))) as client:
                    with pytest.raises(ApiUnreachable, match="certificate"):
                        await client.get(NODE)
                    authority.write_text("half a")
                    with pytest.raises(ApiUnreachable, match="certificate"):
                        await client.get(NODE)
                    with pytest.raises(ApiUnreachable, match="certificate"):
                        await client.get(NODE)
                    authority.write_bytes(certificates.authority.read_bytes())
                    assert await client.get(NODE)

            run(work())
        assert caplog.text.count("the former certificates stay in use") == 1
        assert f"certificate authority cannot be used: {authority}" in caplog.text
