"""A resource that stops is not registered again before the kubelet has taken note of its end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run, until, within
from support.serving import served

from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import FAILURES, PluginClient, channel
from gpu_device_plugin.kubelet.transport import registration_server
from gpu_device_plugin.plugin import parting as module
from gpu_device_plugin.plugin import served as served_module
from gpu_device_plugin.plugin.parting import FORGIVEN, PARTING, Parting
from gpu_device_plugin.plugin.served import State

ONE, OTHER = (1, 2, 3), (1, 2, 4)


class LateKubelet:
    """Learns of the end of a stream, but closes the connection only when it is told to.

    So does one that still writes its checkpoint to a slow disk.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stream_ended = asyncio.Event()
        self.close = asyncio.Event()
        self.plugin: PluginClient | None = None
        self._streams = set[asyncio.Task[None]]()

    async def register(self, request: pb.RegisterRequest) -> pb.Empty:
        stream = self._follow(str(self.directory / request.endpoint))
        self._streams.add(asyncio.create_task(stream))
        return pb.Empty()

    async def _follow(self, path: str) -> None:
        async with channel(path) as connection:
            self.plugin = PluginClient(connection)
            try:
                async with self.plugin.list_and_watch.open() as stream:
                    await stream.send_message(pb.Empty(), end=True)
                    async for _ in stream:
                        pass
            except FAILURES:
                pass
            self.stream_ended.set()
            await self.close.wait()


@asynccontextmanager
async def late_kubelet(directory: Path) -> AsyncIterator[LateKubelet]:
    kubelet = LateKubelet(directory)
    server = registration_server(kubelet)
    await server.start(str(directory / "kubelet.sock"))
    try:
        yield kubelet
    finally:
        kubelet.close.set()
        await server.stop()


def test_stopping_waits_until_the_kubelet_has_closed_its_connection(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARTING", 60)

    async def work():
        async with late_kubelet(tmp_path) as kubelet, served(tmp_path) as resource:
            await until(lambda: resource.service.board.open_streams == 1)
            stopping = asyncio.create_task(resource.stop())
            await within(2, kubelet.stream_ended.wait())
            assert os.listdir(tmp_path) == ["kubelet.sock"]
            assert kubelet.plugin is not None
            options = await within(2, kubelet.plugin.options(pb.Empty()))
            assert options.get_preferred_allocation_available, "it answers to the last"
            assert not stopping.done()
            kubelet.close.set()
            await within(2, stopping)
            assert resource.state is State.STOPPED

    run(work())


def test_a_kubelet_that_does_not_close_its_connection_is_waited_for_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARTING", 0.05)
    parting = Parting()

    async def work():
        async with late_kubelet(tmp_path) as kubelet:
            async with served(tmp_path, parting=parting) as first:
                await until(lambda: first.service.board.open_streams == 1)
                await within(2, first.stop())
            monkeypatch.setattr(module, "PARTING", 60)
            async with served(tmp_path, parting=parting) as second:
                await until(lambda: second.service.board.open_streams == 1)
                await within(2, second.stop())
            assert not kubelet.close.is_set()

    run(work())


def test_only_a_kubelet_that_never_closes_is_not_waited_for():
    parting = Parting()
    assert parting.seconds(ONE) == PARTING
    parting.note(closed=False)
    assert parting.seconds(ONE) == 0
    assert parting.seconds(OTHER) == PARTING, "another kubelet may do better"
    parting.note(closed=True)
    parting.note(closed=False)
    assert parting.seconds(OTHER) == PARTING, "it was only slow"


def test_a_kubelet_that_was_slow_at_its_first_reload_is_waited_for_at_a_later_one():
    now = 1000.0
    parting = Parting(clock=lambda: now)
    assert parting.seconds(ONE) == PARTING
    parting.note(closed=False)
    now += FORGIVEN - 1
    assert parting.seconds(ONE) == 0
    now += 1
    assert parting.seconds(ONE) == PARTING


def test_whoever_only_holds_a_connection_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARTING", 60)
    parting = Parting()

    async def work():
        async with late_kubelet(tmp_path) as kubelet, served(tmp_path, parting=parting) as resource:
            await until(lambda: resource.service.board.open_streams == 1)
            _, stranger = await asyncio.open_unix_connection(str(tmp_path / "nvidia-gpu.sock"))
            kubelet.close.set()
            registered_with = resource.registered_with
            await within(2, resource.stop())
            stranger.close()
            await stranger.wait_closed()
            assert parting.seconds(registered_with) == 60, "the kubelet has closed its connection"

    run(work())


def test_a_registration_is_not_broken_off(tmp_path, monkeypatch):
    """The kubelet would forget the resource by name, when it is registered again already."""
    monkeypatch.setattr(module, "PARTING", 60)

    async def work():
        asked, answer, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def register(*_: str) -> None:
            asked.set()
            await answer.wait()
            answered.set()

        (tmp_path / "kubelet.sock").touch()
        async with served(tmp_path, register_with=register) as resource:
            await within(2, asked.wait())
            stopping = asyncio.create_task(resource.stop())
            await asyncio.sleep(0)
            answer.set()
            await within(2, stopping)
            assert answered.is_set()

    run(work())


def test_a_kubelet_that_hangs_up_before_it_opens_a_stream_is_told_again_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(served_module, "GRACE", 60)
    monkeypatch.setattr(served_module, "FIRST_STREAM", 60)

    async def work():
        calls = []

        async def register(_: str, endpoint: str, name: str) -> None:
            calls.append(name)
            async with channel(str(tmp_path / endpoint)) as connection:
                await PluginClient(connection).options(pb.Empty())

        (tmp_path / "kubelet.sock").touch()
        async with served(tmp_path, register_with=register):
            await until(lambda: len(calls) == 2)

    run(work())


@pytest.mark.parametrize("at_once", [True, False])
def test_a_resource_that_nobody_is_connected_to_stops_at_once(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(module, "PARTING", 60)

    async def register(*_: str) -> None:
        return

    async def work():
        (tmp_path / "kubelet.sock").touch()
        async with served(tmp_path, register_with=register) as resource:
            await until(lambda: resource.state is State.REGISTERED)
            await within(2, resource.stop(at_once=at_once))

    run(work())
