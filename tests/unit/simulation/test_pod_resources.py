"""The simulated kubelet tells of its pods as a genuine one does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run
from support.plugins import FakePlugin, device

from gpu_device_plugin.kubelet.podresources import (
    ContainerDevices,
    PodResourcesClient,
    PodResourcesUnavailable,
)
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import Container, PodSpec

GPU = "nvidia.com/gpu"


@asynccontextmanager
async def a_node(tmp_path: Path) -> AsyncIterator[tuple[SimulatedKubelet, PodResourcesClient]]:
    directory = tmp_path / "plugins"
    directory.mkdir()
    socket = str(tmp_path / "pods.sock")
    async with SimulatedKubelet(str(directory), pod_resources_socket=socket) as kubelet:
        plugin = FakePlugin(str(directory))
        await plugin.serve(kubelet, device("g0", node=0), device("g1"), device("g2", healthy=False))
        await kubelet.until(lambda view: view.resource(GPU).allocatable == 2, "two devices")
        async with PodResourcesClient(socket) as client:
            yield kubelet, client
        await plugin.stop()


def test_pods_are_told_by_container_with_their_namespace(tmp_path):
    async def work():
        async with a_node(tmp_path) as (kubelet, client):
            containers = (Container("one", {GPU: 1}), Container("none"), Container("two", {GPU: 1}))
            pod = await kubelet.admit(PodSpec("train", containers, "ml"))
            first, second = (a.device_ids for a in pod.assignments)

            assert await client.list() == (
                ContainerDevices("ml", "train", "one", {GPU: first}),
                ContainerDevices("ml", "train", "two", {GPU: second}),
            )
            assert await client.get("ml", "train") == await client.list()
            with pytest.raises(PodResourcesUnavailable, match="not found"):
                await client.get("default", "train")
            kubelet.delete("train")
            assert await client.list() == ()

    run(work())


def test_healthy_devices_are_allocatable_whether_held_or_not(tmp_path):
    async def work():
        async with a_node(tmp_path) as (kubelet, client):
            await kubelet.admit(PodSpec.of("train", {GPU: 1}))

            assert await client.allocatable() == {GPU: ("g0", "g1")}

    run(work())


def test_a_pod_keeps_what_a_lost_plugin_has_given_it(tmp_path):
    async def work():
        async with a_node(tmp_path) as (kubelet, client):
            pod = await kubelet.admit(PodSpec.of("train", {GPU: 2}))
            await kubelet.restart()

            (held,) = await client.list()
            assert set(held.devices[GPU]) == set(pod.device_ids(GPU))
            assert await client.allocatable() == {}

    run(work())


def test_the_socket_is_gone_while_the_kubelet_is_stopped(tmp_path):
    async def work():
        async with a_node(tmp_path) as (kubelet, client):
            await kubelet.stop()
            assert not os.path.exists(kubelet.pod_resources_socket)
            with pytest.raises(PodResourcesUnavailable, match="does not exist"):
                await client.list()

    run(work())


def test_questions_can_be_refused(tmp_path):
    async def work():
        async with a_node(tmp_path) as (kubelet, client):
            kubelet.pod_resources.refusal = "not today"
            for question in (client.list, client.allocatable, lambda: client.get("n", "p")):
                with pytest.raises(PodResourcesUnavailable, match="not today"):
                    await question()
            assert kubelet.pod_resources.asked == 3
        await asyncio.sleep(0)

    run(work())
