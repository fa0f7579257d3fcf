"""All resources of a node being served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.plugin.ailment import Ailment
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.gate import Gate
from gpu_device_plugin.plugin.kubelet_socket import Identity, KubeletSocket, plugin_socket_path
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.parting import Parting
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.served import ServedResource
from gpu_device_plugin.plugin.service import ResourceService
from gpu_device_plugin.resources.model import Resource
from gpu_device_plugin.telemetry import Listener, nobody

RETIRE_SECONDS = 1.0
"""Longest wait until the kubelet has heard that a resource is gone."""


class Servers:
    """The resources of a node by name."""

    def __init__(
        self, kubelet: KubeletSocket, socket_directory: str, tell: Listener = nobody
    ) -> None:
        self._kubelet = kubelet
        self._tell = tell
        self._directory = socket_directory
        self._parting = Parting()
        self._served: dict[str, ServedResource] = {}
        self._ailments: dict[str, Ailment] = {}
        """What was known against devices when they were served last."""

    def __bool__(self) -> bool:
        """Whether anything is served."""
        return bool(self._served)

    @property
    def boards(self) -> list[DeviceBoard]:
        """The state of each resource's devices."""
        return [served.service.board for served in self._served.values()]

    @property
    def served(self) -> list[ServedResource]:
        """All resources, in the order in which they were begun."""
        return list(self._served.values())

    def start(self, node: Node, preference: LinkedGpus) -> None:
        """Serves what a node offers; nothing may be served yet."""
        for resource in node.plan.resources:
            self._add(resource, node, preference)
        # All boards are made before the first stream can open.
        for served in self._served.values():
            served.start()

    async def adapt(self, node: Node, preference: LinkedGpus) -> None:
        """Serves what another node offers without disturbing what stays the same."""
        await self._retire(set(self._served).difference(node.plan.names()))
        for resource in node.plan.resources:
            served = self._served.get(resource.name)
            if served is None:
                self._add(resource, node, preference).start()
            else:
                served.service.update(resource, node.settings, preference)

    async def stop(self, keep: Iterable[str] | None = None) -> None:
        """Stops everything.

        Args:
            keep: names that will be served again at once. The kubelet is told that the others
                have no devices any more; None if the program ends.

        Raises:
            UserError: everything is stopped, but a socket could not be removed.
        """
        if keep is not None:
            await self._retire(set(self._served).difference(keep))
        self._ailments = {i: a for board in self.boards for i, a in board.ailments.items()}
        served, at_once = self.served, keep is None
        # They are forgotten only then: if this is broken off, the end of the program stops them.
        await asyncio.gather(*(resource.stop(at_once=at_once) for resource in served))
        self._served = {}
        leftovers = [resource.leftover for resource in served if resource.leftover]
        if leftovers:
            raise UserError("; ".join(leftovers), "the directory must be writable")

    def poke(self) -> None:
        """Tells all that something in the directories has changed."""
        for served in self._served.values():
            served.poke()

    def were_told_to_another_than(self, kubelet: Identity | None) -> bool:
        """Whether any resource was registered with another kubelet than this one."""
        told = {served.registered_with for served in self._served.values()}
        return not told <= {None, kubelet}

    def _add(self, resource: Resource, node: Node, preference: LinkedGpus) -> ServedResource:
        board = DeviceBoard(resource)
        board.inherit(self._ailments)
        service = ResourceService(board, node.settings, preference, node.policy, self._tell)
        path = plugin_socket_path(resource.socket_name, self._directory)
        gate = _mps_gate(resource) if node.needs_mps else None
        served = ServedResource(
            service, self._kubelet, path, gate=gate, tell=self._tell, parting=self._parting
        )
        self._served[resource.name] = served
        return served

    async def _retire(self, names: Iterable[str]) -> None:
        gone = list(names)
        await asyncio.gather(*(self._served[name].retire(RETIRE_SECONDS) for name in gone))
        for name in gone:
            del self._served[name]


def _mps_gate(resource: Resource) -> Gate:
    from gpu_device_plugin.plugin.mps import MpsReadiness  # noqa: PLC0415 - only where it is used

    return MpsReadiness(resource)
