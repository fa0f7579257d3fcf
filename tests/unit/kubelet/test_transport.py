"""gRPC on unix sockets: what a kubelet and what anybody else may send."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import struct
import warnings
from collections.abc import Awaitable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aio import run, until
from support.serving import a_service

from gpu_device_plugin.errors import RequestError, UserError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import (
    KubeletUnreachable,
    PluginClient,
    RegistrationRefused,
    channel,
    register,
)
from gpu_device_plugin.kubelet.transport import SET_UP_TURNS, plugin_server, registration_server
from gpu_device_plugin.plugin.ailment import Ailment, Severity

Answer = TypeVar("Answer")
ALLOCATE = "/v1beta1.DevicePlugin/Allocate"
LIMIT = 5.0


class Raw(CodecBase):
    """Bytes as they are."""

    __content_subtype__ = "proto"

    def encode(self, message, message_type):  # noqa: ARG002
        return message

    def decode(self, data, message_type):  # noqa: ARG002
        return data


class Kubelet:
    """Answers registrations as it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.requests: list[pb.RegisterRequest] = []

    async def register(self, request: pb.RegisterRequest) -> pb.Empty:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return pb.Empty()


def test_a_registration_says_all_that_the_kubelet_wants(tmp_path):
    async def work():
        kubelet = Kubelet()
        server = registration_server(kubelet)
        await server.start(str(tmp_path / "k"))
        await register(str(tmp_path / "k"), "nvidia-gpu.sock", "nvidia.com/gpu")
        await server.stop()
        (request,) = kubelet.requests
        assert (request.version, request.endpoint) == ("v1beta1", "nvidia-gpu.sock")
        assert request.resource_name == "nvidia.com/gpu"
        assert request.options.get_preferred_allocation_available
        assert not request.options.pre_start_required

    run(work())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("version too old"), "UNKNOWN: version too old"),
        (GRPCError(Status.UNAVAILABLE, "später ✓"), "UNAVAILABLE: später ✓"),
    ],
)
def test_a_refusal_is_told_in_the_kubelets_words(tmp_path, error, message):
    async def work():
        server = registration_server(Kubelet(error))
        await server.start(str(tmp_path / "k"))
        with pytest.raises(RegistrationRefused, match=message):
            await register(str(tmp_path / "k"), "s", "nvidia.com/gpu")
        await server.stop()

    run(work())


def test_an_error_of_our_own_is_internal_and_logged(tmp_path, caplog):
    async def work():
        server = registration_server(Kubelet(LookupError("oops")))
        await server.start(str(tmp_path / "k"))
        with pytest.raises(RegistrationRefused, match="INTERNAL: internal error: LookupError"):
            await register(str(tmp_path / "k"), "s", "nvidia.com/gpu")
        await server.stop()

    run(work())
    assert "a request failed" in caplog.text


def test_nobody_at_the_socket_is_told_with_its_path(tmp_path):
    async def work():
        with pytest.raises(KubeletUnreachable, match=str(tmp_path / "k")):
            await register(str(tmp_path / "k"), "s", "nvidia.com/gpu")

    run(work())


def test_a_kubelet_that_does_not_answer_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_device_plugin.kubelet.client.CONNECT_TIMEOUT", 0.05)

    async def read_only(reader, writer):
        while await reader.read(1000):
            pass
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()

    async def work():
        silent = await asyncio.start_unix_server(read_only, str(tmp_path / "k"))
        with pytest.raises(KubeletUnreachable, match=r"did not answer within 0.05 s"):
            await register(str(tmp_path / "k"), "s", "nvidia.com/gpu")
        await ended.wait()
        silent.close()

    run(work())


def test_something_else_than_grpc_at_the_socket_is_unreachable(tmp_path):
    async def answer(_, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()

    async def work():
        other = await asyncio.start_unix_server(answer, str(tmp_path / "k"))
        with pytest.raises(KubeletUnreachable):
            await register(str(tmp_path / "k"), "s", "nvidia.com/gpu")
        await ended.wait()
        other.close()

    run(work())


async def serving(path: str):
    server = plugin_server(a_service())
    await server.start(path)
    return server


async def still_works(path: str) -> bool:
    async with channel(path) as connection:
        options = await PluginClient(connection).options(pb.Empty())
        return options.get_preferred_allocation_available


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_whatever_is_sent_as_a_message_gets_a_status(tmp_path_factory, data):
    path = str(tmp_path_factory.mktemp("s") / "s")

    async def work():
        server = await serving(path)
        connection = Channel(path=path, codec=Raw())
        try:
            call = UnaryUnaryMethod[Any, Any](connection, ALLOCATE, bytes, bytes)
            answer = await answered(call(data), Status.INTERNAL, Status.UNKNOWN)
            pb.AllocateResponse.FromString(answer or b"")
        finally:
            connection.close()
        assert await still_works(path)
        await server.stop()

    run(work())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_whatever_is_sent_as_a_connection_hurts_nobody_else(tmp_path_factory, data, preface):
    path = str(tmp_path_factory.mktemp("s") / "s")
    start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack("!HBBBI", 0, 0, 4, 0, 0)

    async def work():
        server = await serving(path)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write((start if preface else b"") + data)
        writer.write_eof()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        assert await still_works(path)
        await server.stop()

    run(work())


async def answered(call: Awaitable[Answer], *statuses: Status) -> Answer | None:
    """The answer, or None if it is a status that such a call may end with."""
    try:
        return await call
    except GRPCError as error:
        if error.status not in (statuses or {Status.UNKNOWN}):
            raise
        return None


texts = st.text(max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(texts | st.sampled_from(["GPU-0", "GPU-1"]), max_size=4), max_size=3),
    st.lists(
        st.tuples(
            st.lists(texts | st.sampled_from(["GPU-0", "GPU-1", "GPU-0::1"]), max_size=4),
            st.lists(texts | st.sampled_from(["GPU-0", "GPU-1"]), max_size=3),
            st.integers(-(2**31), 2**31 - 1),
        ),
        max_size=3,
    ),
)
def test_every_request_gets_an_answer_or_an_unknown(tmp_path_factory, containers, preferences):
    path = str(tmp_path_factory.mktemp("s") / "s")
    allocate = pb.AllocateRequest()
    for ids in containers:
        allocate.container_requests.add(devices_ids=ids)
    preferred = pb.PreferredAllocationRequest()
    for available, must, size in preferences:
        preferred.container_requests.add(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )

    async def work():
        server = await serving(path)
        async with channel(path) as connection:
            client = PluginClient(connection)
            answer = await answered(client.allocate(allocate))
            assert answer is None or len(answer.container_responses) == len(containers)
            chosen = await answered(client.preferred(preferred))
            if chosen is not None:
                for response, (available, must, _) in zip(
                    chosen.container_responses, preferences, strict=True
                ):
                    assert set(response.deviceIDs) <= {*available, *must}
        await server.stop()

    run(work())


def test_an_unknown_method_is_unimplemented(tmp_path):
    async def work():
        server = await serving(str(tmp_path / "s"))
        async with channel(str(tmp_path / "s")) as connection:
            call = UnaryUnaryMethod[pb.Empty, pb.Empty](
                connection, "/v1beta1.DevicePlugin/Nothing", pb.Empty, pb.Empty
            )
            with pytest.raises(GRPCError) as caught:
                await call(pb.Empty())
            assert caught.value.status is Status.UNIMPLEMENTED
        await server.stop()

    run(work())


def test_a_cancelled_stream_ends_and_the_others_go_on(tmp_path):
    async def work():
        service = a_service()
        server = plugin_server(service)
        await server.start(str(tmp_path / "s"))
        async with channel(str(tmp_path / "s")) as connection:
            watch = PluginClient(connection).list_and_watch
            async with watch.open() as one, watch.open() as two:
                for stream in (one, two):
                    await stream.send_message(pb.Empty(), end=True)
                    await stream.recv_message()
                await one.cancel()
                await until(lambda: service.board.open_streams == 1)
                ailment = Ailment("XID 79", Severity.RECOVERABLE, 0, 0)
                service.board.mark_unhealthy([service.resource.devices[0]], ailment)
                changed = await two.recv_message()
                assert changed is not None
                assert [d.health for d in changed.devices] == ["Unhealthy", "Healthy"]
                await two.cancel()
            await until(lambda: service.board.open_streams == 0)
        await server.stop()

    run(work())


def test_a_connection_that_is_accepted_as_the_server_stops_is_cut(tmp_path):
    async def work() -> None:
        path = str(tmp_path / "s.sock")
        server = plugin_server(a_service())
        await server.start(path)
        for turns in range(6):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            client.connect(path)
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.stop()
            with suppress(ConnectionResetError):
                async with asyncio.timeout(LIMIT):
                    while await asyncio.get_running_loop().sock_recv(client, 1000):
                        pass
            client.close()
            await server.start(path)
        await server.stop()

    run(work())


def test_a_stale_file_is_replaced_and_a_foreign_socket_is_left(tmp_path):
    path = tmp_path / "s"
    path.write_text("stale")

    async def work():
        old = await serving(str(path))
        assert old.owns_socket()
        new = await serving(str(path))
        assert new.owns_socket()
        assert not old.owns_socket()
        await old.stop()
        assert path.is_socket()
        assert await still_works(str(path))
        await new.stop()
        assert new.socket_missing()
        await new.stop()

    run(work())


def dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


def datagram_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(path))


@pytest.mark.parametrize(
    "put",
    [
        dead_socket,
        datagram_socket,
        Path.touch,
        Path.mkdir,
        os.mkfifo,
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to("/dev/null/below"),
    ],
)
def test_nobody_listens_at_what_is_no_socket_of_a_living_process(tmp_path, put):
    path = tmp_path / "s"

    async def work():
        server = await serving(str(path))
        path.unlink()
        put(path)
        assert server.successor_is_dead()
        await server.stop()

    run(work())


def test_a_successor_that_is_too_busy_to_answer_lives(tmp_path):
    path = tmp_path / "s"

    async def work():
        server = await serving(str(path))
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor, ExitStack() as clients:
            successor.bind(str(path))
            successor.listen(0)
            code = 0
            while not code:
                client = clients.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                code = client.connect_ex(str(path))
            assert code == errno.EAGAIN
            assert not server.successor_is_dead()
        await server.stop()

    run(work())


def test_a_socket_that_cannot_be_made_is_told_with_its_path(tmp_path):
    async def work():
        with pytest.raises(OSError, match="nowhere"):
            await serving(str(tmp_path / "nowhere" / "s"))
        with pytest.raises(OSError, match="path too long"):
            await serving(str(tmp_path / ("x" * 200)))

    run(work())
    assert os.listdir(tmp_path) == []


def test_request_errors_reach_the_kubelet_in_full():
    error = RequestError("unknown device 'Üml✓'", "hint")

    assert str(error) == "unknown device 'Üml✓' (hint)"


class TestConnections:
    @staticmethod
    async def deserted_by(path: Path, said: bytes) -> bool:
        """Whether a server takes note of a connection that has ended, by which that was said."""
        notes: list[None] = []
        server = plugin_server(a_service())
        server.on_deserted = lambda: notes.append(None)
        await server.start(str(path))
        try:
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(said)
            writer.write_eof()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            return bool(notes)
        finally:
            await server.stop()

    def test_one_by_which_something_was_said_is_noted_when_it_ends(self, tmp_path):
        assert run(self.deserted_by(tmp_path / "s", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))

    def test_one_of_somebody_who_only_looks_is_not(self, tmp_path):
        assert not run(self.deserted_by(tmp_path / "s", b""))


class TestStarts:
    @pytest.mark.parametrize("turns", range(4))
    def test_one_that_is_broken_off_leaves_nothing(self, tmp_path, turns):
        path = tmp_path / "s"

        async def work() -> bool:
            server = plugin_server(a_service())
            start = asyncio.create_task(server.start(str(path)))
            for _ in range(turns):
                await asyncio.sleep(0)
            was_broken_off = start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            await server.stop()
            assert not os.path.lexists(path)
            again = plugin_server(a_service())
            await again.start(str(path))
            await again.stop()
            return was_broken_off

        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            assert run(work()) is (turns < 2)
            gc.collect()

    def test_what_an_earlier_socket_left_behind_is_forgotten(self, tmp_path, monkeypatch):
        path = tmp_path / "s"

        async def work() -> None:
            server = plugin_server(a_service())
            await server.start(str(path))
            with monkeypatch.context() as patch:
                patch.setattr(os, "unlink", refuse)
                await server.stop()
            assert server.leftover == f"the socket {path} cannot be removed: Read-only file system"
            await server.start(str(path))
            await server.stop()
            assert server.leftover == ""

        def refuse(name: str) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)

        run(work())


class TestEnds:
    @pytest.mark.parametrize("turns", range(6))
    def test_one_that_is_broken_off_and_made_again_closes_everything(self, tmp_path, turns):
        path = tmp_path / "s"

        async def work() -> bool:
            server = plugin_server(a_service())
            await server.start(str(path))
            reader, writer = await asyncio.open_unix_connection(str(path))
            stop = asyncio.create_task(server.stop())
            for _ in range(turns):
                await asyncio.sleep(0)
            was_broken_off = stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)
            await server.stop()
            with suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            return was_broken_off

        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            assert run(work()) or turns > SET_UP_TURNS
            gc.collect()
        assert not os.path.lexists(path)

    def test_two_at_once_are_one(self, tmp_path):
        async def work() -> None:
            server = plugin_server(a_service())
            await server.start(str(tmp_path / "s"))
            await asyncio.gather(server.stop(), server.stop())

        run(work())
