"""The device plugin API for one resource."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from gpu_device_plugin.config.model import AllocationPolicy
from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import PluginOptions
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.response import AllocationSettings, make_response
from gpu_device_plugin.resources.model import REPLICA_MARK, Resource
from gpu_device_plugin.resources.requests import requested_devices
from gpu_device_plugin.resources.spreading import prefer_replicas
from gpu_device_plugin.telemetry import Call, Listener, ListSent, StreamOpened, nobody, timed

log = logging.getLogger(__name__)


class GpuPreference(Protocol):
    """Chooses among whole GPUs by the links between them."""

    async def prefer(
        self, resource: Resource, available: Sequence[str], required: Sequence[str], size: int
    ) -> list[str]:
        """The GPUs to take; empty where the request cannot be met.

        Raises:
            RequestError: an id is unknown.
        """
        ...


class ResourceService:
    """Answers the kubelet's calls for one resource."""

    def __init__(
        self,
        board: DeviceBoard,
        settings: AllocationSettings,
        preference: GpuPreference,
        policy: AllocationPolicy,
        tell: Listener = nobody,
    ) -> None:
        self.board = board
        self._tell = tell
        self._settings = settings
        self._preference = preference
        self._policy = policy
        self.stream_opened = asyncio.Event()
        self.streams_ended = asyncio.Event()

    def update(
        self, resource: Resource, settings: AllocationSettings, preference: GpuPreference
    ) -> None:
        """Exchanges the devices and how they are given away; streams stay open."""
        self._settings = settings
        self._preference = preference
        self.board.update(resource)

    @property
    def resource(self) -> Resource:
        """The resource that is served."""
        return self.board.resource

    async def options(self) -> pb.DevicePluginOptions:
        """The same for every resource: preferred allocation, no start hook."""
        return PluginOptions

    async def device_lists(self) -> AsyncGenerator[bytes, None]:
        """The list now and after each change of health."""
        log.info("stream opened resource=%s", self.resource.name)
        self.streams_ended.clear()
        self.stream_opened.set()
        self._tell(StreamOpened(self.resource.name))
        try:
            async with aclosing(self.board.lists()) as lists:
                async for encoded in lists:
                    yield encoded
                    self._tell(ListSent(self.resource.name))
        finally:
            if not self.board.open_streams:
                self.streams_ended.set()
            log.info("stream ended resource=%s", self.resource.name)

    async def preferred(
        self, request: pb.PreferredAllocationRequest
    ) -> pb.PreferredAllocationResponse:
        """Which ids to take, for each container."""
        response = pb.PreferredAllocationResponse()
        with timed(self._tell, Call.PREFER, self.resource.name, RequestError):
            for container in request.container_requests:
                ids = await self._prefer(
                    list(container.available_deviceIDs),
                    list(container.must_include_deviceIDs),
                    container.allocation_size,
                )
                response.container_responses.add(deviceIDs=ids)
        return response

    async def _prefer(self, available: list[str], required: list[str], size: int) -> list[str]:
        shared = any(REPLICA_MARK in device_id for device_id in available)
        if self.resource.is_plain_gpus and not shared:
            return await self._preference.prefer(self.resource, available, required, size)
        return prefer_replicas(self.resource, available, required, size, self._policy)

    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        """How each container gets its devices."""
        response = pb.AllocateResponse()
        with timed(self._tell, Call.ALLOCATE, self.resource.name, RequestError):
            for container in request.container_requests:
                devices = requested_devices(self.resource, list(container.devices_ids))
                answer = make_response(self._settings, self.resource, devices)
                response.container_responses.append(answer)
        return response

    async def pre_start(self, request: pb.PreStartContainerRequest) -> pb.PreStartContainerResponse:  # noqa: ARG002 - nothing is to be done
        """Nothing has to be done; the kubelet is told so and does not ask."""
        return pb.PreStartContainerResponse()
