"""The devices of one resource and their health, as every open stream is told.

A stream gets the newest state, never a backlog: whoever reads slowly skips what is outdated,
and whoever does not read at all delays nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass

from gpu_device_plugin.kubelet import api
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.resources.model import Device, Resource

log = logging.getLogger(__name__)

KUBELET_LIMIT = 4 * 2**20
"""Bytes of the longest message that a kubelet takes (grpc-go's default)."""


@dataclass(slots=True, eq=False)
class _Stream:
    delivered: int = -1


class DeviceBoard:
    """State of a resource's devices; `lists` tells it and every change of it."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._ailments: dict[str, Ailment] = {}
        self._chunks = {d.id: _encode(d, api.HEALTHY) for d in resource.devices}
        self._encoded: bytes | None = None
        self._version = 0
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()
        self._first = asyncio.Event()
        self._streams: set[_Stream] = set()
        self._is_open = True
        self.lists_sent = 0

    @property
    def ailments(self) -> dict[str, Ailment]:
        """What is known against devices, by id without replica number."""
        return dict(self._ailments)

    @property
    def open_streams(self) -> int:
        """How many streams are told of changes."""
        return len(self._streams)

    def mark_unhealthy(self, devices: Iterable[Device], ailment: Ailment) -> list[Device]:
        """Marks devices; returns those that were healthy before. One list goes out for all.

        Args:
            devices: the devices to mark; those of other resources do not count.
            ailment: what has happened; devices that are unhealthy already add it to theirs.
        """
        fresh = list[Device]()
        for device in devices:
            if device.id not in self._chunks:
                continue
            before = self._ailments.get(device.id)
            self._ailments[device.id] = ailment if before is None else before.joined_by(ailment)
            if before is None:
                self._chunks[device.id] = _encode(device, api.UNHEALTHY)
                fresh.append(device)
        if fresh:
            self._publish()
        return fresh

    def mark_healthy(self, devices: Iterable[Device]) -> list[Device]:
        """Takes marks back; returns the devices that were unhealthy before."""
        back = [device for device in devices if self._ailments.pop(device.id, None) is not None]
        for device in back:
            self._chunks[device.id] = _encode(device, api.HEALTHY)
        if back:
            self._publish()
        return back

    def inherit(self, ailments: Mapping[str, Ailment]) -> None:
        """Takes over what outlasts a reload, before the first stream opens."""
        for device in self.resource.devices:
            ailment = ailments.get(device.id)
            if ailment is not None and ailment.severity is Severity.UNTIL_RESET:
                self.mark_unhealthy([device], ailment)

    def ailing(self, severity: Severity) -> list[Device]:
        """The devices with a mark of that severity."""
        return [
            device
            for device in self.resource.devices
            if (ailment := self._ailments.get(device.id)) and ailment.severity is severity
        ]

    def update(self, resource: Resource) -> None:
        """Exchanges the devices; those that stay keep their health. One list goes out."""
        before = {device.id: device for device in self.resource.devices}
        self.resource = resource
        if before == {device.id: device for device in resource.devices}:
            return
        self._ailments = {
            d.id: self._ailments[d.id]
            for d in resource.devices
            if d.id in self._ailments and _is_same(d, before[d.id])
        }
        self._chunks = {
            d.id: _encode(d, api.UNHEALTHY if d.id in self._ailments else api.HEALTHY)
            for d in resource.devices
        }
        self._publish()

    async def retire(self, limit: float) -> None:
        """Tells all streams that there are no devices any more.

        Args:
            limit: seconds to wait until every stream has been told.
        """
        self._chunks = {}
        self._ailments = {}
        self._publish()
        await self.told(limit)

    async def told(self, limit: float) -> bool:
        """Waits until all open streams have the newest list; false if that takes too long.

        Args:
            limit: seconds to wait at most.
        """
        try:
            async with asyncio.timeout(limit):
                while any(stream.delivered < self._version for stream in self._streams):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    async def first_told(self) -> None:
        """Waits until any stream has been told the devices."""
        await self._first.wait()

    def close(self) -> None:
        """Ends all streams, and each that is opened from now on."""
        self._is_open = False
        self._wake()

    def open(self) -> None:
        """Lets streams go on again that are opened from now on."""
        self._is_open = True

    async def lists(self) -> AsyncGenerator[bytes, None]:
        """The encoded list now and after each change, until the stream or the board is closed."""
        stream = _Stream()
        self._streams.add(stream)
        try:
            while self._is_open:
                version, changed = self._version, self._changed
                if stream.delivered != version:
                    yield self._current()
                    self.lists_sent += 1
                    stream.delivered = version
                    self._progress.set()
                    self._first.set()
                else:
                    await changed.wait()
        finally:
            self._streams.discard(stream)
            self._progress.set()

    def _current(self) -> bytes:
        if self._encoded is None:
            # Encoded messages of one type can be put one behind the other: repeated fields add up.
            self._encoded = b"".join(self._chunks.values())
            if len(self._encoded) > KUBELET_LIMIT:
                log.error(
                    "the list of %d devices takes %.1f MiB, more than the kubelet's 4 MiB: it "
                    "will close the stream; configure fewer replicas resource=%s",
                    *(self.resource.size, len(self._encoded) / 2**20, self.resource.name),
                )
        return self._encoded

    def _publish(self) -> None:
        self._encoded = None
        self._version += 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _is_same(device: Device, before: Device) -> bool:
    """Whether it is the same piece of hardware, whatever else is told of it now."""
    return (device.gpu_uuid, device.mig_instances) == (before.gpu_uuid, before.mig_instances)


def _encode(device: Device, health: str) -> bytes:
    """A list of this device alone, with all its replicas."""
    topology = None
    if device.numa_node is not None:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=device.numa_node)])
    entries = [pb.Device(ID=i, health=health, topology=topology) for i in device.ids()]
    return pb.ListAndWatchResponse(devices=entries).SerializeToString()
