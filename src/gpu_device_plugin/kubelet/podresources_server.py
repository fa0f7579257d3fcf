"""A kubelet's pod resources server, for kubelets that are simulated."""

from __future__ import annotations

from typing import Protocol

from gpu_device_plugin.kubelet import podresources_pb2 as pb
from gpu_device_plugin.kubelet.transport import UnixServer, unary


class PodResourcesService(Protocol):
    """What a kubelet answers to those who ask who holds what."""

    async def list_pods(self, request: pb.ListPodResourcesRequest) -> pb.ListPodResourcesResponse:
        """List."""
        ...

    async def allocatable(
        self, request: pb.AllocatableResourcesRequest
    ) -> pb.AllocatableResourcesResponse:
        """GetAllocatableResources."""
        ...

    async def get_pod(self, request: pb.GetPodResourcesRequest) -> pb.GetPodResourcesResponse:
        """Get."""
        ...


def pod_resources_server(service: PodResourcesService) -> UnixServer:
    """The server of a kubelet."""
    name = "/v1.PodResourcesLister/"
    return UnixServer(
        {
            name + "List": unary(
                service.list_pods, pb.ListPodResourcesRequest, pb.ListPodResourcesResponse
            ),
            name + "GetAllocatableResources": unary(
                service.allocatable,
                pb.AllocatableResourcesRequest,
                pb.AllocatableResourcesResponse,
            ),
            name + "Get": unary(
                service.get_pod, pb.GetPodResourcesRequest, pb.GetPodResourcesResponse
            ),
        }
    )
