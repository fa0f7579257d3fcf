"""The node read and the kubelet asked at once, and what is said if one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run
from support.plugins import FakePlugin, device

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import PodSpec
from gpu_device_plugin.status.local import OTHER_CONFIGURATION
from gpu_device_plugin.status.local_source import NOT_ASKED, LocalSource

GPU = "nvidia.com/gpu"


class Backend(SimulatedBackend):
    """Four T4, one of which wants a reset."""

    asked: list[int]

    def problem_of(self, gpu: object) -> str:
        self.asked.append(gpu.index)  # type: ignore[attr-defined]
        return "it needs a reset" if gpu.index == 1 else ""  # type: ignore[attr-defined]


def a_backend() -> Backend:
    backend = Backend.from_profile("t4x4")
    assert isinstance(backend, Backend)
    backend.asked = []
    return backend


def a_source(socket: str, backend: SimulatedBackend, *arguments: str) -> LocalSource:
    parsed = parse(Program.DEVICE_PLUGIN, arguments, {})
    return LocalSource(lambda: load(parsed), lambda _: backend, socket, node="node-1")


@asynccontextmanager
async def a_kubelet(tmp_path: Path, *sick: int) -> AsyncIterator[SimulatedKubelet]:
    """A kubelet that knows the GPUs, some of them as unhealthy."""
    directory = tmp_path / "plugins"
    directory.mkdir()
    gpus = a_backend().read().gpus
    async with SimulatedKubelet(
        str(directory), pod_resources_socket=str(tmp_path / "s")
    ) as kubelet:
        plugin = FakePlugin(str(directory))
        await plugin.serve(kubelet, *(device(g.uuid, healthy=g.index not in sick) for g in gpus))
        await kubelet.until(
            lambda view: view.resource(GPU).allocatable == len(gpus) - len(sick), "devices"
        )
        yield kubelet
        await plugin.stop()


def test_hardware_health_and_holders_come_together(tmp_path):
    async def work():
        backend = a_backend()
        async with a_kubelet(tmp_path, 1) as kubelet:
            await kubelet.admit(PodSpec.of("train", {GPU: 1}, "ml"))
            source = a_source(str(tmp_path / "s"), backend)
            look = await source.look()
            source.close()
        return look, backend

    look, backend = run(work())

    assert not look.notes
    (resource,) = look.status.resources
    assert (resource.capacity, resource.allocatable, resource.in_use) == (4, 3, 1)
    illness = resource.devices[1].illness
    assert illness is not None
    assert illness.reason == "it needs a reset"
    assert backend.asked == [1]
    assert (look.status.program, look.status.node) == ("gpu-node", "node-1")


def test_without_a_kubelet_the_hardware_is_told_and_the_driver_is_asked(tmp_path):
    async def work():
        backend = a_backend()
        source = a_source(str(tmp_path / "none"), backend)
        look = await source.look()
        source.close()
        return look, backend

    look, backend = run(work())

    assert "does not exist" in look.status.pods.problem
    assert [d.healthy for d in look.status.resources[0].devices] == [True, False, True, True]
    assert backend.asked == [0, 1, 2, 3]


def test_a_kubelet_that_tells_of_pods_only_leaves_health_open(tmp_path):
    async def work():
        async with a_kubelet(tmp_path) as kubelet:
            service = kubelet.pod_resources

            async def refuse(_: object) -> None:
                raise ConfigError("GetAllocatableResources disabled")

            service.allocatable = refuse  # type: ignore[assignment]
            await kubelet.stop()
            await kubelet.start()
            source = a_source(str(tmp_path / "s"), a_backend())
            look = await source.look()
            source.close()
            return look

    look = run(work())

    assert look.status.pods.problem == ""
    (note,) = look.notes
    assert note.startswith("what the kubelet holds for healthy is not known: the kubelet refused")
    assert not look.status.resources[0].health_known


def test_a_kubelet_that_is_not_to_be_asked_is_not_asked():
    async def work():
        source = a_source("", a_backend())
        look = await source.look()
        source.close()
        return look

    assert run(work()).status.pods.problem == NOT_ASKED


def test_another_configuration_is_noted(tmp_path):
    async def work():
        async with a_kubelet(tmp_path):
            config = tmp_path / "config.yaml"
            config.write_text(
                "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, "
                "replicas: 2}]}}\n"
            )
            source = a_source(str(tmp_path / "s"), a_backend(), f"--config-file={config}")
            look = await source.look()
            source.close()
            return look

    look = run(work())

    assert look.notes == (OTHER_CONFIGURATION,)
    assert [d.replicas for d in look.status.resources[0].devices] == [0, 0, 0, 0]


def test_a_driver_that_cannot_be_used_is_told_and_holders_are_told_all_the_same(tmp_path):
    class Dead(Backend):
        def read(self) -> Inventory:
            raise InitError("Driver Not Loaded")

    async def work():
        async with a_kubelet(tmp_path) as kubelet:
            await kubelet.admit(PodSpec.of("train", {GPU: 1}))
            source = a_source(str(tmp_path / "s"), Dead.from_profile("t4x4"))
            look = await source.look()
            source.close()
            return look

    look = run(work())

    assert look.status.hardware is not None
    assert look.status.hardware.problem == "Driver Not Loaded"
    assert look.status.resources[0].in_use == 1


def test_what_validation_refuses_offers_nothing(tmp_path):
    async def work():
        source = a_source(str(tmp_path / "none"), a_backend(), "--device-list-strategy=odd")
        look = await source.look()
        source.close()
        return look

    look = run(work())

    assert look.status.resources == ()
    assert look.status.ready.reasons[0].startswith("nothing is offered: ")


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    async def work():
        source = a_source(str(tmp_path / "none"), a_backend(), "--config-file=/nowhere")
        with pytest.raises(ConfigError, match="/nowhere"):
            await source.look()
        source.close()
        await asyncio.sleep(0)

    run(work())
