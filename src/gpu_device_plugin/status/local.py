"""The status of a node without the help of a program that serves it. Everything here is pure.

The hardware is read here, what is offered follows from the configuration, and health and holders
are what the kubelet believes. Where the kubelet offers something else than the configuration says,
the plugin has another configuration, and what the kubelet says counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpu_device_plugin import __version__
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.hardware.model import Gpu, Inventory
from gpu_device_plugin.kubelet.podresources import ContainerDevices, Devices
from gpu_device_plugin.resources.model import Device, Resource, split_id
from gpu_device_plugin.status.collect import (
    Holders,
    describe_hardware,
    describe_resource,
)
from gpu_device_plugin.status.holders import former_holdings, is_ours, make_holders
from gpu_device_plugin.status.model import (
    SCHEMA,
    Check,
    DeviceStatus,
    Illness,
    NodeStatus,
    Pods,
    ResourceStatus,
)
from gpu_device_plugin.status.settings import describe_configuration

PROGRAM = "gpu-node"

NOT_HANDED_OUT = "not handed out by the kubelet; the log of the plugin says why"
OTHER_CONFIGURATION = (
    "the kubelet offers other devices than this configuration does, so what it tells is shown, "
    "and unhealthy devices are missing (give the options and the file of the plugin on this node, "
    "or ask it with --address)"
)


@dataclass(frozen=True, slots=True)
class HardwareRead:
    """What was read here."""

    loaded: Loaded
    inventory: Inventory | None
    """None if the driver cannot be used."""
    resources: tuple[Resource, ...] = ()
    """What the configuration makes of it."""
    init_problem: str = ""
    """Why the driver cannot be used."""
    plan_problem: str = ""
    """Why the configuration offers nothing."""
    simulated: str = ""
    """The profile of a simulated node."""


@dataclass(frozen=True, slots=True)
class KubeletTold:
    """What the kubelet has told; None where it does not tell."""

    containers: tuple[ContainerDevices, ...] | None = None
    allocatable: Devices | None = None
    """Healthy devices, of any vendor."""
    pods_problem: str = ""
    allocatable_problem: str = ""


@dataclass(frozen=True, slots=True)
class LocalView:
    """Hardware and kubelet brought together."""

    read: HardwareRead
    told: KubeletTold
    resources: tuple[Resource, ...]
    """Those that are offered, as far as is known."""
    is_observed: bool
    """Whether they are what the kubelet tells, as the configuration says something else."""

    @classmethod
    def of(cls, read: HardwareRead, told: KubeletTold) -> LocalView:
        """Decides whom to believe."""
        ours = _ours(told.allocatable)
        if ours is None or _agrees(read.resources, ours):
            return cls(read, told, read.resources, is_observed=False)
        return cls(read, told, tuple(_observed(ours, read.inventory)), is_observed=True)

    def is_healthy(self, resource: Resource, device: Device) -> bool:
        """Whether the kubelet hands a device out; True if it does not tell."""
        allocatable = self.told.allocatable
        return allocatable is None or device.ids()[0] in allocatable.get(resource.name, ())

    def suspects(self) -> tuple[Gpu, ...]:
        """The GPUs of which the driver should be asked what is wrong with them."""
        inventory = self.read.inventory
        if inventory is None:
            return ()
        if self.told.allocatable is None:
            return inventory.gpus
        hit = {
            device.gpu_uuid
            for resource in self.resources
            for device in resource.devices
            if not self.is_healthy(resource, device)
        }
        return tuple(gpu for gpu in inventory.gpus if gpu.uuid in hit)


def _ours(allocatable: Devices | None) -> Devices | None:
    if allocatable is None:
        return None
    ours = {
        resource: tuple(i for i in ids if is_ours(resource, i))
        for resource, ids in allocatable.items()
    }
    return {resource: ids for resource, ids in ours.items() if ids}


def _agrees(resources: Iterable[Resource], allocatable: Devices) -> bool:
    """Whether the kubelet may have been told of these resources.

    Replicas of a device are healthy or not together, so that some without the others come from
    another configuration.
    """
    planned = {resource.name: resource for resource in resources}
    for name, ids in allocatable.items():
        resource = planned.get(name)
        there = set(ids)
        if resource is None or any(resource.find(i) is None for i in there):
            return False
        if any(
            not there.isdisjoint(all_of_it) and not there.issuperset(all_of_it)
            for _, all_of_it in resource.ids_by_device
        ):
            return False
    return True


def _observed(allocatable: Devices, inventory: Inventory | None) -> Iterator[Resource]:
    """Resources that consist of what the kubelet hands out."""
    known = dict(_known_devices(inventory))
    for name, ids in sorted(allocatable.items()):
        replicas: dict[str, int] = {}
        for device_id in ids:
            base, number = split_id(device_id)
            replicas[base] = max(replicas.get(base, 0), 0 if number is None else number + 1)
        devices = [
            replace(known.get(base, Device(base, "?")), replicas=count)
            for base, count in replicas.items()
        ]
        yield Resource(name, tuple(sorted(devices, key=lambda device: device.sort_key)))


def _known_devices(inventory: Inventory | None) -> Iterator[tuple[str, Device]]:
    for gpu in () if inventory is None else inventory.gpus:
        whole = Device(
            gpu.uuid,
            str(gpu.index),
            numa_node=gpu.numa_node,
            gpu_uuid=gpu.uuid,
            gpu_index=gpu.index,
        )
        yield gpu.uuid, whole
        for mig in gpu.mig_devices:
            yield (
                mig.uuid,
                replace(
                    whole,
                    id=mig.uuid,
                    index=f"{gpu.index}:{mig.slot}",
                    mig_instances=(mig.gpu_instance, mig.compute_instance),
                ),
            )


def describe_node(
    view: LocalView, problems: Mapping[str, str], *, node: str, now: float, started: float
) -> NodeStatus:
    """The status of the node, as far as it can be told from here.

    Args:
        view: what was read and told.
        problems: what the driver says is wrong with GPUs, by UUID.
        node: name of the node.
        now: seconds since 1970 of the reading.
        started: seconds since 1970 of the start of this program.
    """
    read, told = view.read, view.told
    holders = None if told.containers is None else make_holders(told.containers)
    hardware = describe_hardware(
        read.inventory, None, simulated=read.simulated, problem=read.init_problem
    )
    resources = tuple(_resource(view, each, holders, problems) for each in view.resources)
    pods = Pods(
        asked=True,
        problem=told.pods_problem,
        time=0 if holders is None else now,
        former=() if holders is None else former_holdings(holders, resources, hardware),
    )
    reasons = tuple(_lacks(view, resources))
    return NodeStatus(
        schema=SCHEMA,
        program=PROGRAM,
        version=__version__,
        node=node,
        time=now,
        started=started,
        live=Check(ok=True),
        ready=Check(not reasons, reasons),
        hardware=hardware,
        resources=resources,
        pods=pods,
        configuration=describe_configuration(read.loaded, problem=read.plan_problem),
    )


def _lacks(view: LocalView, resources: Iterable[ResourceStatus]) -> Iterator[str]:
    """Why pods do not get what they could."""
    if view.read.init_problem:
        yield f"no devices: {view.read.init_problem}"
    if view.read.plan_problem and not view.is_observed:
        yield f"nothing is offered: {view.read.plan_problem}"
    for resource in resources:
        if resource.health_known and not resource.registered:
            yield f"{resource.name}: the kubelet has no healthy device of it, or no plugin for it"


def _resource(
    view: LocalView, resource: Resource, holders: Holders | None, problems: Mapping[str, str]
) -> ResourceStatus:
    """A resource with the health that the kubelet believes in."""
    allocatable = view.told.allocatable
    plain = describe_resource(
        resource, {}, holders, registered=allocatable is not None and resource.name in allocatable
    )
    devices = tuple(
        _judged(
            described,
            healthy=view.is_healthy(resource, device),
            problem=problems.get(device.gpu_uuid, ""),
        )
        for device, described in zip(resource.devices, plain.devices, strict=True)
    )
    return replace(
        plain,
        sharing="" if view.is_observed and any(d.replicas for d in devices) else plain.sharing,
        devices=devices,
        allocatable=sum(d.replicas or 1 for d in devices if d.healthy),
        health_known=allocatable is not None,
    )


def _judged(device: DeviceStatus, *, healthy: bool, problem: str) -> DeviceStatus:
    """A device with its health; the driver is asked only where the kubelet says no or nothing."""
    if healthy and not problem:
        return device
    illness = Illness(problem or NOT_HANDED_OUT, "", "", 0, 0, 0)
    return replace(device, healthy=False, illness=illness)
