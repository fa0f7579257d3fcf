"""How a kubelet gives devices to a pod (devicemanager, manager.go: Allocate)."""

from __future__ import annotations

from collections.abc import Callable

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.simulation.endpoint import Endpoint, EndpointError
from gpu_device_plugin.simulation.pods import Assignment, Pod, PodSpec
from gpu_device_plugin.simulation.views import NodeView, ResourceView


class AdmissionError(UserError):
    """A pod cannot have what it asks for (``UnexpectedAdmissionError`` in Kubernetes)."""


async def admit_pod(
    spec: PodSpec, view: Callable[[], NodeView], endpoint: Callable[[str], Endpoint | None]
) -> Pod:
    """Asks the plugins for all that a pod wants.

    Args:
        spec: the pod.
        view: the node at the moment of the call.
        endpoint: the plugin behind a resource, if there is one.

    Raises:
        AdmissionError: it cannot have all of it.
    """
    if spec.name in view().pods:
        raise AdmissionError(f"there is a pod {spec.name} already")
    given = list[Assignment]()
    for container in spec.containers:
        for name, count in container.limits.items():
            plugin = endpoint(name)
            if plugin is None:
                raise AdmissionError(f"no plugin offers {name}")
            taken = {i for a in given if a.resource == name for i in a.device_ids}
            try:
                ids = await _choose(view().resource(name), taken, count, plugin)
                answer = await plugin.allocate(ids)
            except EndpointError as error:
                raise AdmissionError(f"{name}: {error}") from None
            given.append(_assignment(container.name, name, ids, answer))
    return Pod(spec, tuple(given))


async def _choose(
    resource: ResourceView, taken: set[str], count: int, plugin: Endpoint
) -> list[str]:
    """The ids to take: those that the plugin prefers, then whichever are there."""
    available = [
        device.id
        for device in resource.devices
        if device.is_healthy and not device.pod and device.id not in taken
    ]
    if len(available) < count:
        raise AdmissionError(
            f"requested number of devices unavailable for {resource.name}. "
            f"Requested: {count}, Available: {len(available)}"
        )
    chosen = list[str]()
    if plugin.options.get_preferred_allocation_available and count < len(available):
        preferred = await plugin.preferred(available, [], count)
        chosen = [i for i in dict.fromkeys(preferred) if i in set(available)][:count]
    rest = (device_id for device_id in available if device_id not in set(chosen))
    return chosen + [next(rest) for _ in range(count - len(chosen))]


def _assignment(
    container: str, resource: str, ids: list[str], answer: pb.ContainerAllocateResponse
) -> Assignment:
    return Assignment(
        container=container,
        resource=resource,
        device_ids=tuple(ids),
        envs=dict(answer.envs),
        mounts=tuple((mount.host_path, mount.container_path) for mount in answer.mounts),
        device_nodes=tuple(spec.host_path for spec in answer.devices),
        annotations=dict(answer.annotations),
        cdi_devices=tuple(device.name for device in answer.cdi_devices),
    )
