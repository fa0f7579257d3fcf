"""Resources being served on real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gpu_device_plugin.config.model import AllocationPolicy, Config
from gpu_device_plugin.kubelet.client import register
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.parting import Parting
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.response import AllocationSettings
from gpu_device_plugin.plugin.served import Register, ServedResource
from gpu_device_plugin.plugin.service import ResourceService
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.simulation.views import NodeView
from support.configs import a_config

GPU = "nvidia.com/gpu"


def two_gpus() -> Resource:
    devices = (
        Device(id="GPU-0", index="0", gpu_uuid="GPU-0"),
        Device(id="GPU-1", index="1", gpu_uuid="GPU-1", gpu_index=1),
    )
    return Resource(GPU, devices)


def a_service(resource: Resource | None = None, config: Config | None = None) -> ResourceService:
    return ResourceService(
        DeviceBoard(resource or two_gpus()),
        AllocationSettings.of(config or a_config()),
        LinkedGpus(()),
        AllocationPolicy.DISTRIBUTED,
    )


@asynccontextmanager
async def served(
    directory: Path,
    *,
    kubelet: str | None = None,
    register_with: Register = register,
    parting: Parting | None = None,
) -> AsyncIterator[ServedResource]:
    """A resource served beside the kubelet's socket, stopped at the end."""
    socket = str(directory / "kubelet.sock") if kubelet is None else kubelet
    resource = ServedResource(
        *(a_service(), KubeletSocket(socket), str(directory / "nvidia-gpu.sock"), register_with),
        parting=parting,
    )
    resource.start()
    try:
        yield resource
    finally:
        await resource.stop()


def allocatable(count: int, name: str = GPU) -> Callable[[NodeView], bool]:
    """Whether the kubelet can hand out so many devices of a resource."""
    return lambda view: view.resource(name).allocatable == count
