"""What a kubelet tells of its pods (pkg/kubelet/apis/podresources/server_v1.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import podresources_pb2 as pb
from gpu_device_plugin.simulation.pods import Pod
from gpu_device_plugin.simulation.views import DeviceView, NodeView, ResourceView


class PodResources:
    """Answers from what a kubelet knows at the moment.

    Args:
        view: the node.
    """

    def __init__(self, view: Callable[[], NodeView]) -> None:
        self.refusal = ""
        """What questions are refused with; empty to answer them."""
        self.asked = 0
        """How many questions have come."""
        self._view = view

    async def list_pods(self, request: pb.ListPodResourcesRequest) -> pb.ListPodResourcesResponse:  # noqa: ARG002 - it is empty
        """All pods and what they hold."""
        self._receive()
        view = self._view()
        return pb.ListPodResourcesResponse(
            pod_resources=[_pod(pod, view) for pod in view.pods.values()]
        )

    async def get_pod(self, request: pb.GetPodResourcesRequest) -> pb.GetPodResourcesResponse:
        """One pod and what it holds.

        Raises:
            UserError: there is no such pod.
        """
        self._receive()
        view = self._view()
        pod = view.pods.get(request.pod_name)
        if pod is None or pod.spec.namespace != request.pod_namespace:
            raise UserError(
                f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            )
        return pb.GetPodResourcesResponse(pod_resources=_pod(pod, view))

    async def allocatable(
        self,
        request: pb.AllocatableResourcesRequest,  # noqa: ARG002 - it is empty
    ) -> pb.AllocatableResourcesResponse:
        """All healthy devices."""
        self._receive()
        return pb.AllocatableResourcesResponse(
            devices=[
                part
                for resource in self._view().resources.values()
                for device in resource.devices
                if device.is_healthy
                for part in _parts(resource.name, device.id, device)
            ]
        )

    def _receive(self) -> None:
        self.asked += 1
        if self.refusal:
            raise UserError(self.refusal)


def _pod(pod: Pod, view: NodeView) -> pb.PodResources:
    answer = pb.PodResources(name=pod.name, namespace=pod.spec.namespace)
    for container in pod.spec.containers:
        held = answer.containers.add(name=container.name)
        for assignment in pod.assignments:
            if assignment.container == container.name:
                resource = view.resource(assignment.resource)
                held.devices.extend(_assigned(resource, assignment.device_ids))
    return answer


def _assigned(resource: ResourceView, device_ids: Iterable[str]) -> Iterator[pb.ContainerDevices]:
    known = {device.id: device for device in resource.devices}
    for device_id in device_ids:
        yield from _parts(resource.name, device_id, known.get(device_id))


def _parts(
    resource: str, device_id: str, device: DeviceView | None
) -> Iterator[pb.ContainerDevices]:
    """One entry for each device and NUMA node, as a genuine kubelet makes them."""
    if device is None or not device.numa_nodes:
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device_id])
        return
    for node in device.numa_nodes:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device_id], topology=topology)
