"""A kubelet as device plugins know it: registration, device lists, admission of pods.

It does what Kubernetes' device manager does (pkg/kubelet/cm/devicemanager): a plugin is dialled
before its registration is answered; unhealthy devices count as capacity but are not handed out;
a resource whose plugin is lost keeps its devices, all of them unhealthy; a kubelet that starts
removes all sockets from its directory and knows pods, but no devices, from before. It does not
forget lost resources after five minutes, and has no topology manager.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import api
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.podresources_server import pod_resources_server
from gpu_device_plugin.kubelet.transport import UnixServer, registration_server
from gpu_device_plugin.simulation.admission import AdmissionError, admit_pod
from gpu_device_plugin.simulation.endpoint import Endpoint, EndpointError
from gpu_device_plugin.simulation.pod_resources import PodResources
from gpu_device_plugin.simulation.pods import Pod, PodSpec
from gpu_device_plugin.simulation.registration import problem_of
from gpu_device_plugin.simulation.views import (
    DeviceView,
    EventKind,
    KubeletEvent,
    NodeView,
    ResourceView,
)

SOCKET_NAME = "kubelet.sock"


class WaitedInVain(UserError):
    """What was waited for did not come."""


class _Resource:
    """What the kubelet keeps of a resource."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.endpoint: Endpoint | None = None
        self.devices: tuple[DeviceView, ...] = ()
        self.lists = 0


class SimulatedKubelet:
    """Runs in the event loop, on real unix sockets.

    Args:
        directory: where its socket and those of the plugins are.
        on_event: told of everything that it sees and does.
        pod_resources_socket: where it tells which container holds what; empty for nowhere.
    """

    def __init__(
        self,
        directory: str,
        on_event: Callable[[KubeletEvent], None] | None = None,
        pod_resources_socket: str = "",
    ) -> None:
        self.directory = directory
        self.pod_resources = PodResources(self.view)
        self.pod_resources_socket = pod_resources_socket
        self.refusal = ""
        """What registrations are refused with; empty to accept them."""
        self.reads_streams = True
        """Whether the streams of plugins that register from now on are read."""
        self._on_event = on_event
        self._server: UnixServer | None = None
        self._pod_server: UnixServer | None = None
        self._resources: dict[str, _Resource] = {}
        self._pods: dict[str, Pod] = {}
        self._registrations = 0
        self._changed = asyncio.Event()
        self._admission = asyncio.Lock()

    @property
    def socket(self) -> str:
        """The path of the registration socket."""
        return os.path.join(self.directory, SOCKET_NAME)

    async def __aenter__(self) -> Self:
        """Starts it."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops it."""
        await self.stop()

    async def start(self) -> None:
        """Removes what sockets there are and takes registrations."""
        for name in os.listdir(self.directory):
            path = os.path.join(self.directory, name)
            # Plugins remove their sockets themselves meanwhile.
            with suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)
        self._resources = {name: _Resource(name) for name in self._resources}
        self._server = registration_server(self)
        await self._server.start(self.socket)
        if self.pod_resources_socket:
            self._pod_server = pod_resources_server(self.pod_resources)
            await self._pod_server.start(self.pod_resources_socket)
        self._tell(EventKind.STARTED, "the kubelet has started")

    async def stop(self) -> None:
        """Cuts all connections and removes its socket; plugins and pods go on."""
        server, self._server = self._server, None
        if server is None:
            return
        await server.stop()
        pods, self._pod_server = self._pod_server, None
        if pods is not None:
            await pods.stop()
        await self.drop_connections()
        self._tell(EventKind.STOPPED, "the kubelet has stopped")

    async def restart(self) -> None:
        """Stops and starts, as after a crash or an update."""
        await self.stop()
        await self.start()

    async def drop_connections(self) -> None:
        """Loses the connections to all plugins, while its own socket stays."""
        resources = list(self._resources.values())
        endpoints = [r.endpoint for r in resources if r.endpoint is not None]
        for resource in resources:
            self._lose(resource)
        await asyncio.gather(*(endpoint.close() for endpoint in endpoints))

    async def register(self, request: pb.RegisterRequest) -> pb.Empty:
        """Answers a plugin's registration.

        Raises:
            UserError: it is refused.
        """
        self._registrations += 1
        name = request.resource_name
        problem = self.refusal or problem_of(request)
        endpoint = Endpoint(name, os.path.join(self.directory, request.endpoint))
        if not problem:
            try:
                await endpoint.connect()
            except EndpointError as error:
                problem = str(error)
        if problem:
            self._tell(EventKind.REFUSED, f"registration refused: {problem}", name)
            raise UserError(problem)
        resource = self._resources.setdefault(name, _Resource(name))
        before, resource.endpoint = resource.endpoint, endpoint
        if before is not None:
            await before.close()
        self._tell(EventKind.REGISTERED, f"plugin registered: {request.endpoint}", name)
        endpoint.follow(
            lambda devices: self._take_list(resource, devices),
            lambda reason: self._end(resource, endpoint, reason),
            reads=self.reads_streams,
        )
        return pb.Empty()

    def _take_list(self, resource: _Resource, devices: Sequence[pb.Device]) -> None:
        before = {device.id: device.is_healthy for device in resource.devices}
        resource.devices = tuple(
            DeviceView(
                device.ID,
                device.health == api.HEALTHY,
                tuple(node.ID for node in device.topology.nodes),
            )
            for device in devices
        )
        resource.lists += 1
        sick = sum(not device.is_healthy for device in resource.devices)
        fallen = sum(not d.is_healthy and before.get(d.id, False) for d in resource.devices)
        news = f", {fallen} of them just now" if fallen and fallen < sick else ""
        health = f"{sick} unhealthy{news}" if sick else "all healthy"
        count = len(resource.devices)
        self._tell(
            EventKind.LIST, f"{count} devices, {health}" if count else "no devices", resource.name
        )

    def _end(self, resource: _Resource, endpoint: Endpoint, reason: str) -> None:
        if resource.endpoint is endpoint:
            self._lose(resource)
            self._tell(EventKind.DISCONNECTED, f"plugin lost: {reason}", resource.name)

    def _lose(self, resource: _Resource) -> None:
        resource.endpoint = None
        resource.devices = tuple(
            DeviceView(device.id, is_healthy=False, numa_nodes=device.numa_nodes)
            for device in resource.devices
        )
        self._wake()

    async def admit(self, spec: PodSpec) -> Pod:
        """Gives a pod its devices.

        Raises:
            AdmissionError: it cannot have them; it gets none.
        """
        async with self._admission:
            try:
                pod = await admit_pod(spec, self.view, self._endpoint)
            except AdmissionError as error:
                self._tell(EventKind.REJECTED, f"rejected: {error}", pod=spec.name)
                raise
            self._pods[pod.name] = pod
        for assignment in pod.assignments:
            count = len(assignment.device_ids)
            message = f"admitted with {count} {assignment.resource}"
            self._tell(EventKind.ADMITTED, message, assignment.resource, pod.name)
        return pod

    def _endpoint(self, name: str) -> Endpoint | None:
        resource = self._resources.get(name)
        return None if resource is None else resource.endpoint

    def delete(self, names: str | Iterable[str]) -> None:
        """Removes pods, so that their devices are free; unknown names do nothing."""
        for name in [names] if isinstance(names, str) else list(names):
            if self._pods.pop(name, None) is not None:
                self._tell(EventKind.DELETED, "deleted", pod=name)

    def view(self) -> NodeView:
        """The node at this moment."""
        holders = {
            (assignment.resource, device_id): pod.name
            for pod in self._pods.values()
            for assignment in pod.assignments
            for device_id in assignment.device_ids
        }
        return NodeView(
            resources={
                name: ResourceView(
                    name,
                    tuple(
                        DeviceView(d.id, d.is_healthy, d.numa_nodes, holders.get((name, d.id), ""))
                        for d in resource.devices
                    ),
                    is_connected=resource.endpoint is not None,
                    lists=resource.lists,
                )
                for name, resource in self._resources.items()
            },
            pods=dict(self._pods),
            registrations=self._registrations,
            is_running=self._server is not None,
        )

    async def until(
        self, condition: Callable[[NodeView], bool], what: str, limit: float = 10
    ) -> NodeView:
        """Waits for a state of the node; the view in which it came true.

        Args:
            condition: asked after every change.
            what: what is waited for, in words, for the error.
            limit: seconds.

        Raises:
            WaitedInVain: it did not come.
        """
        try:
            async with asyncio.timeout(limit):
                while not condition(view := self.view()):
                    await self._changed.wait()
                return view
        except TimeoutError:
            raise WaitedInVain(f"{what}: not within {limit:g} s") from None

    def _tell(self, kind: EventKind, message: str, resource: str = "", pod: str = "") -> None:
        self._wake()
        if self._on_event is not None:
            self._on_event(KubeletEvent(kind, message, resource, pod))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
