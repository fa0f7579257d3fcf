"""Plugins that offer what they are told to, and a kubelet for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import register
from gpu_device_plugin.kubelet.transport import UnixServer, plugin_server
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.views import EventKind, KubeletEvent, NodeView

GPU = "nvidia.com/gpu"


class FakePlugin:
    """A plugin that offers what it is told to."""

    def __init__(self, directory: str, resource: str = GPU) -> None:
        self.resource = resource
        self.endpoint = resource.replace("/", "-") + ".sock"
        self.path = os.path.join(directory, self.endpoint)
        self.lists: asyncio.Queue[list[pb.Device]] = asyncio.Queue()
        self.asked: list[tuple[list[str], int]] = []
        self.started: list[list[str]] = []
        self.answer: list[str] = []
        self.problem = ""
        self.stream_opened = asyncio.Event()
        self.pre_start_required = False
        self._server: UnixServer | None = None

    async def serve(self, kubelet: SimulatedKubelet, *devices: pb.Device) -> None:
        """Serves anew and registers with these devices."""
        await self.stop()
        self.offer(*devices)
        self._server = plugin_server(self)
        await self._server.start(self.path)
        await register(kubelet.socket, self.endpoint, self.resource)

    def offer(self, *devices: pb.Device) -> None:
        """Sends a list."""
        self.lists.put_nowait(list(devices))

    async def stop(self) -> None:
        """Is gone."""
        if self._server is not None:
            await self._server.stop()

    async def options(self) -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(
            get_preferred_allocation_available=True, pre_start_required=self.pre_start_required
        )

    async def device_lists(self) -> AsyncGenerator[bytes, None]:
        self.stream_opened.set()
        while True:
            yield pb.ListAndWatchResponse(devices=await self.lists.get()).SerializeToString()

    async def preferred(
        self, request: pb.PreferredAllocationRequest
    ) -> pb.PreferredAllocationResponse:
        if self.problem:
            raise UserError(self.problem)
        answer = pb.PreferredAllocationResponse()
        for container in request.container_requests:
            self.asked.append((list(container.available_deviceIDs), container.allocation_size))
            answer.container_responses.add(deviceIDs=self.answer)
        return answer

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        if self.problem:
            raise UserError(self.problem)
        answer = pb.AllocateResponse()
        for container in request.container_requests:
            given = answer.container_responses.add(
                envs={"DEVICES": ",".join(container.devices_ids)},
                mounts=[pb.Mount(host_path="/h", container_path="/c")],
                devices=[pb.DeviceSpec(host_path="/dev/x", container_path="/dev/x")],
                annotations={"a": "b"},
            )
            given.cdi_devices.add(name="vendor/class=x")
        return answer

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:
        self.started.append(list(request.devices_ids))
        return pb.PreStartContainerResponse()


def device(name: str, *, healthy: bool = True, node: int | None = None) -> pb.Device:
    topology = None if node is None else pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
    return pb.Device(ID=name, health="Healthy" if healthy else "Unhealthy", topology=topology)


class Node:
    """A kubelet, a plugin and what the kubelet has told."""

    def __init__(self, directory: str) -> None:
        self.events: list[KubeletEvent] = []
        self.kubelet = SimulatedKubelet(directory, self.events.append)
        self.plugin = FakePlugin(directory)

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    async def allocatable(self, count: int, resource: str = GPU) -> NodeView:
        return await self.kubelet.until(
            lambda view: view.resource(resource).allocatable == count, f"{count} of {resource}"
        )


@asynccontextmanager
async def a_node(directory: str, *devices: pb.Device) -> AsyncIterator[Node]:
    node = Node(directory)
    async with node.kubelet:
        await node.plugin.serve(node.kubelet, *devices)
        await node.allocatable(sum(d.health == "Healthy" for d in devices))
        yield node
    await node.plugin.stop()
