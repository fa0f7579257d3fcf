"""A kubelet's connection to one registered plugin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import FAILURES, PluginClient, channel, describe

DIAL_SECONDS = 10.0
"""How long the kubelet tries to reach a plugin that registers (devicemanager, client.go)."""

OnList = Callable[[Sequence[pb.Device]], None]
OnEnd = Callable[[str], None]


class EndpointError(UserError):
    """A plugin does not answer, or answers with an error."""


class Endpoint:
    """Calls to one plugin, and its stream of device lists."""

    def __init__(self, resource: str, path: str) -> None:
        self.resource = resource
        self.path = path
        self.options = pb.DevicePluginOptions()
        self._stack = AsyncExitStack()
        self._client: PluginClient | None = None
        self._stream: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Dials the plugin and asks for its options, as the kubelet does before it says yes.

        Raises:
            EndpointError: the plugin cannot be reached.
        """
        connection = await self._stack.enter_async_context(channel(self.path))
        self._client = PluginClient(connection)
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                self.options = await self._client.options(pb.Empty())
        except BaseException as error:
            await self.close()
            if isinstance(error, FAILURES):
                raise EndpointError(f"no answer from {self.path}: {describe(error)}") from None
            raise

    def follow(self, on_list: OnList, on_end: OnEnd, *, reads: bool) -> None:
        """Opens the stream and hands every list over, until it ends.

        Args:
            on_list: called with each list.
            on_end: called once with the reason, unless the endpoint is closed on this side.
            reads: whether to read the stream at all; a kubelet that is stuck does not.
        """
        work = self._follow(on_list, on_end, reads=reads)
        self._stream = asyncio.create_task(work, name=f"stream {self.resource}")

    async def _follow(self, on_list: OnList, on_end: OnEnd, *, reads: bool) -> None:
        reason = "the stream has ended"
        try:
            async with self._plugin.list_and_watch.open() as stream:
                await stream.send_message(pb.Empty(), end=True)
                if not reads:
                    await asyncio.get_running_loop().create_future()
                async for answer in stream:
                    on_list(answer.devices)
        except FAILURES as error:
            reason = describe(error)
        finally:
            await self._stack.aclose()
        on_end(reason)

    async def preferred(
        self, available: Sequence[str], required: Sequence[str], size: int
    ) -> list[str]:
        """GetPreferredAllocation for one container.

        Raises:
            EndpointError: the call failed.
        """
        request = pb.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=size
        )
        try:
            answer = await self._plugin.preferred(request)
        except FAILURES as error:
            raise EndpointError(f"GetPreferredAllocation failed: {describe(error)}") from None
        return [i for container in answer.container_responses for i in container.deviceIDs]

    async def allocate(self, device_ids: Sequence[str]) -> pb.ContainerAllocateResponse:
        """Allocate for one container, and PreStartContainer if the plugin wants it.

        Raises:
            EndpointError: a call failed.
        """
        request = pb.AllocateRequest()
        request.container_requests.add(devices_ids=device_ids)
        try:
            answer = await self._plugin.allocate(request)
            if self.options.pre_start_required:
                await self._plugin.pre_start(pb.PreStartContainerRequest(devices_ids=device_ids))
        except FAILURES as error:
            raise EndpointError(f"Allocate failed: {describe(error)}") from None
        if len(answer.container_responses) != 1:
            raise EndpointError(
                f"Allocate answered for {len(answer.container_responses)} containers, not for one"
            )
        return answer.container_responses[0]

    async def close(self) -> None:
        """Cuts the connection."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)
        await self._stack.aclose()

    @property
    def _plugin(self) -> PluginClient:
        if self._client is None:
            raise EndpointError(f"not connected to {self.path}")
        return self._client
