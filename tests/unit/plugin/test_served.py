"""One resource on a real socket, and what happens to it on real nodes."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from support.aio import run, until, within
from support.serving import GPU, a_service, allocatable, served, two_gpus

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.kubelet.client import KubeletUnreachable, RegistrationRefused
from gpu_device_plugin.plugin import served as module
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.served import ServedResource, State
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses that are short, so that tests are."""
    monkeypatch.setattr(module, "GRACE", 0.02)
    monkeypatch.setattr(module, "SOON", 0.02)
    monkeypatch.setattr(module, "Backoff", lambda first, most: Backoff(first / 50, most / 50))


def test_a_resource_registers_and_is_told_to_the_kubelet(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path) as resource:
            view = await kubelet.until(allocatable(2), "two GPUs")
            assert view.registrations == 1
            assert resource.state is State.REGISTERED
        assert not (tmp_path / "nvidia-gpu.sock").exists()
        assert str(resource.state) == State.STOPPED

    run(work())


def test_without_a_kubelet_nothing_is_served_until_it_comes(tmp_path):
    async def work():
        async with served(tmp_path) as resource:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert resource.state is State.WAITING
            assert os.listdir(tmp_path) == []
            async with SimulatedKubelet(str(tmp_path)) as kubelet:
                resource.poke()
                view = await kubelet.until(allocatable(2), "two GPUs")
                assert view.registrations == 1

    run(work())


def test_an_empty_kubelet_socket_means_no_registration(tmp_path):
    async def work():
        async with served(tmp_path, kubelet="") as resource:
            await until(lambda: resource.state is State.UNREGISTERED)
            assert os.listdir(tmp_path) == ["nvidia-gpu.sock"]

    run(work())


def test_a_refused_registration_takes_the_socket_away_and_is_tried_again(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet:
            kubelet.refusal = "not today"
            async with served(tmp_path) as resource:
                await until(lambda: resource.state is State.REFUSED)
                await until(lambda: not (tmp_path / "nvidia-gpu.sock").exists())
                kubelet.refusal = ""
                view = await kubelet.until(allocatable(2), "two GPUs")
                assert view.registrations >= 2

    run(work())


def test_a_socket_that_nobody_listens_at_is_tried_again(tmp_path):
    async def work():
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(tmp_path / "kubelet.sock"))
        stale.close()
        async with served(tmp_path) as resource:
            await until(lambda: resource.registered_with is not None)
            async with SimulatedKubelet(str(tmp_path)) as kubelet:
                await kubelet.until(allocatable(2), "two GPUs")

    run(work())


def test_a_socket_that_vanishes_is_made_and_registered_again(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path) as resource:
            await kubelet.until(allocatable(2), "two GPUs")
            os.unlink(tmp_path / "nvidia-gpu.sock")
            resource.poke()
            await kubelet.until(lambda view: view.registrations == 2, "a second registration")
            assert (tmp_path / "nvidia-gpu.sock").exists()

    run(work())


def test_connections_that_the_kubelet_loses_lead_to_a_new_registration(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path):
            await kubelet.until(allocatable(2), "two GPUs")
            await kubelet.drop_connections()
            view = await kubelet.until(allocatable(2), "two GPUs again")
            assert view.registrations == 2

    run(work())


def test_a_registration_without_a_stream_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FIRST_STREAM", 0.02)
    calls = []

    async def deaf_kubelet(*call: str) -> None:
        calls.append(call)

    async def work():
        Path(tmp_path / "kubelet.sock").touch()
        async with served(tmp_path, register_with=deaf_kubelet):
            await until(lambda: len(calls) == 3)

    run(work())
    assert set(calls) == {(str(tmp_path / "kubelet.sock"), "nvidia-gpu.sock", GPU)}


def test_a_stream_that_ends_with_its_kubelet_is_left_to_the_next_one(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path) as resource:
            await kubelet.until(allocatable(2), "two GPUs")
            await kubelet.stop()
            await until(resource.service.streams_ended.is_set)
            for _ in range(3):
                resource.poke()
                await asyncio.sleep(0.03)
            assert kubelet.view().registrations == 1

    run(work())


def test_of_two_processes_on_one_socket_the_later_one_stays(tmp_path):
    """A rolling update: the old pod must not take the new one's socket away."""

    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path) as old:
            await kubelet.until(allocatable(2), "two GPUs of the old one")
            async with served(tmp_path) as new:
                await kubelet.until(lambda v: v.registrations == 2, "both registered")
                await until(lambda: new.service.board.open_streams == 1)
                await old.stop()
                assert (tmp_path / "nvidia-gpu.sock").is_socket()
                await kubelet.until(allocatable(2), "two GPUs of the new one")
                await asyncio.sleep(0.1)
                assert kubelet.view().registrations == 2

    run(work())


def test_a_successor_that_dies_leaves_the_resource_to_the_former(tmp_path, monkeypatch):
    """A rolling update whose new pod is killed at once must not leave the node without GPUs."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.02)

    async def work():
        path = tmp_path / "nvidia-gpu.sock"
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path) as old:
            await kubelet.until(allocatable(2), "two GPUs")
            path.unlink()
            successor = socket.socket(socket.AF_UNIX)
            successor.bind(str(path))
            successor.listen()
            old.poke()
            await asyncio.sleep(0.1)
            assert kubelet.view().registrations == 1
            successor.close()
            await kubelet.until(lambda v: v.registrations == 2, "the former one again")
            await kubelet.until(allocatable(2), "two GPUs again")

    run(work())


def test_stopping_does_not_wait_for_a_kubelet_that_never_reads(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet:
            kubelet.reads_streams = False
            async with served(tmp_path) as resource:
                await until(lambda: resource.service.board.open_streams == 1)
                await within(0.3, resource.stop(at_once=True))

    run(work())


def test_a_retired_resource_is_told_to_be_empty_first(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet, served(tmp_path) as resource:
            await kubelet.until(allocatable(2), "two GPUs")
            await resource.retire(1)
            assert kubelet.view().resource(GPU).devices == ()

    run(work())


def test_a_directory_that_cannot_be_written_is_tried_again(tmp_path):
    async def work():
        async with SimulatedKubelet(str(tmp_path)) as kubelet:
            resource_dir = tmp_path / "later"
            resource = ServedResource(
                a_service(two_gpus()),
                KubeletSocket(kubelet.socket),
                str(resource_dir / "nvidia-gpu.sock"),
                lambda *_: asyncio.sleep(0),
            )
            resource.start()
            try:
                await until(lambda: resource.state is State.FAILED)
                resource_dir.mkdir()
                await until(lambda: resource.state is State.REGISTERED)
            finally:
                await resource.stop()

    run(work())


@pytest.mark.parametrize("error", [RegistrationRefused("no"), KubeletUnreachable("gone")])
def test_errors_of_a_registration_say_what_they_are(error):
    assert str(error) in {"no", "gone"}
