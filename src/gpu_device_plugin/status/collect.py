"""From what the plugin serves to the status that is published. Everything here is pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpu_device_plugin.hardware.model import Gpu, Inventory, Links
from gpu_device_plugin.inspection.topology.model import make_topology
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.observation import Observation, ObservedResource
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.resources.model import REPLICA_MARK, Device, Resource
from gpu_device_plugin.resources.xids import MEANINGS
from gpu_device_plugin.status.model import (
    Configuration,
    DeviceStatus,
    GpuStatus,
    Hardware,
    Holder,
    Illness,
    LinkStatus,
    MigStatus,
    Reloading,
    ResourceStatus,
)
from gpu_device_plugin.status.settings import describe_configuration

Holders = Mapping[tuple[str, str], Sequence[Holder]]
"""Who holds a device, by resource and id without replica number."""

REPLICA_DIGITS = 9
"""No device has more replicas than a number of so many digits."""

SEVERITIES = {
    Severity.PROVISIONAL: "provisional",
    Severity.RECOVERABLE: "recoverable",
    Severity.UNWATCHABLE: "unwatchable",
    Severity.UNTIL_RESET: "until-reset",
    Severity.LOST: "lost",
}


def collect_hardware(seen: Observation, simulated: str = "") -> Hardware | None:
    """The GPUs of the node; None until it has been read.

    Args:
        seen: what the plugin serves.
        simulated: the profile of a simulated node.
    """
    if seen.node is None:
        return None
    inventory = seen.node.inventory
    if inventory is None:
        return describe_hardware(None, None, simulated, seen.node.init_problem, str(seen.watch))
    return describe_hardware(inventory, seen.links, simulated, "", str(seen.watch))


def describe_hardware(
    inventory: Inventory | None,
    links: Links | None,
    simulated: str = "",
    problem: str = "",
    watch: str = "",
) -> Hardware:
    """The GPUs that were read.

    Args:
        inventory: what was read; None if the driver cannot be used.
        links: what connects the GPUs; None as long as that is not known.
        simulated: the profile of a simulated node.
        problem: why the driver cannot be used.
        watch: how far the watching of health has come.
    """
    if inventory is None:
        return Hardware("", simulated, "", "", problem, watch)
    return Hardware(
        platform=str(inventory.platform),
        simulated=simulated,
        driver_version=inventory.driver_version,
        cuda_version=cuda_text(inventory.cuda_driver_version),
        problem=problem,
        watch=watch,
        gpus=tuple(_gpu(gpu) for gpu in inventory.gpus),
        unreadable=tuple(f"GPU {g.index} cannot be read: {g.reason}" for g in inventory.unreadable),
        links=() if links is None else tuple(_links(inventory, links)),
        links_known=links is not None,
    )


def cuda_text(number: int) -> str:
    """``12.4`` for 12040; empty for 0."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _gpu(gpu: Gpu) -> GpuStatus:
    capability = gpu.compute_capability
    return GpuStatus(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        pci_bus_id=gpu.pci_bus_id,
        numa_node=gpu.numa_node,
        compute_capability="" if capability is None else f"{capability[0]}.{capability[1]}",
        mig_enabled=gpu.mig_enabled,
        lost=gpu.lost,
        mig_devices=tuple(
            MigStatus(
                uuid=mig.uuid,
                slot=mig.slot,
                profile=str(mig.profile),
                gpu_instance=mig.gpu_instance,
                compute_instance=mig.compute_instance,
                memory_bytes=mig.memory_bytes,
            )
            for mig in gpu.mig_devices
        ),
    )


def _links(inventory: Inventory, links: Links) -> Iterator[LinkStatus]:
    topology = make_topology(inventory, links)
    for pair in topology.pairs():
        a, b = topology.indices(pair.ends)
        yield LinkStatus(a, b, pair.word, pair.nvlinks)


def collect_resources(
    resources: Iterable[ObservedResource], holders: Holders | None
) -> tuple[ResourceStatus, ...]:
    """The resources that are served.

    Args:
        resources: what the plugin serves.
        holders: who holds what; None if nobody tells.
    """
    return tuple(_resource(observed, holders) for observed in resources)


def _resource(observed: ObservedResource, holders: Holders | None) -> ResourceStatus:
    return describe_resource(
        observed.resource,
        observed.ailments,
        holders,
        state=str(observed.state),
        registered=observed.state is State.REGISTERED,
        streams=observed.open_streams,
    )


def describe_resource(
    resource: Resource,
    ailments: Mapping[str, Ailment],
    holders: Holders | None,
    *,
    state: str = "",
    registered: bool = False,
    streams: int = 0,
) -> ResourceStatus:
    """A resource with its devices.

    Args:
        resource: as it is planned.
        ailments: what is known against its devices, by id without replica number.
        holders: who holds what; None if nobody tells.
        state: how far it has come.
        registered: whether the kubelet knows it.
        streams: how many the kubelet has open.
    """
    devices = tuple(
        _device(
            device, ailments.get(device.id), (holders or {}).get((resource.name, device.id), ())
        )
        for device in resource.devices
    )
    held = sum(count_held(device) for device in devices)
    return ResourceStatus(
        name=resource.name,
        sharing=str(resource.sharing),
        state=state,
        registered=registered,
        streams=streams,
        capacity=resource.size,
        allocatable=sum(d.replicas or 1 for d in devices if d.healthy),
        in_use=None if holders is None else held,
        single=resource.requires_single,
        devices=devices,
    )


def count_held(device: DeviceStatus) -> int:
    """How many of the ids that are offered for a device are held."""
    if device.replicas:
        held = {n for holder in device.holders for n in holder.replicas}
        return sum(n < device.replicas for n in held)
    return int(any(not holder.replicas for holder in device.holders))


def is_offered(replicas: int, holder: Holder) -> bool:
    """Whether all that a container holds of a device is offered as it holds it.

    Args:
        replicas: how many are offered in place of the device; 0 if it is offered itself.
        holder: may hold it as it was offered by a former configuration.
    """
    if replicas:
        return bool(holder.replicas) and max(holder.replicas) < replicas
    return not holder.replicas


def _device(device: Device, ailment: Ailment | None, holders: Sequence[Holder]) -> DeviceStatus:
    return DeviceStatus(
        id=device.id,
        index=device.index,
        gpu_uuid=device.gpu_uuid,
        gpu_index=device.gpu_index,
        mig=device.is_mig,
        replicas=device.replicas,
        numa_node=device.numa_node,
        healthy=ailment is None,
        illness=None if ailment is None else _illness(ailment),
        holders=tuple(holders),
    )


def _illness(ailment: Ailment) -> Illness:
    return Illness(
        reason=ailment.reason,
        meaning=meaning_of(ailment.reason),
        severity=SEVERITIES[ailment.severity],
        first=ailment.first,
        last=ailment.last,
        count=ailment.count,
    )


def meaning_of(reason: str) -> str:
    """What ``XID 79`` means, in words; empty for other reasons and XIDs that are not known."""
    word, _, number = reason.partition(" ")
    return MEANINGS.get(int(number), "") if word == "XID" and number.isdecimal() else ""


def collect_configuration(seen: Observation, profile: str = "") -> Configuration | None:
    """What the plugin was told; None until that has been read.

    Args:
        seen: what the plugin serves.
        profile: the name of the configuration where the node's label has chosen it.
    """
    if seen.node is None:
        return None
    last = seen.last_reload
    problem = last.error if last is not None and last.error else seen.offer_problem
    return describe_configuration(
        seen.node.loaded,
        profile=profile,
        reload=None if last is None else Reloading(last.time, last.error),
        problem=problem,
    )


def split_id(device_id: str) -> tuple[str, int | None]:
    """The id without its replica number, and that number; what is no number is part of the id."""
    base, _, number = device_id.partition(REPLICA_MARK)
    if number.isascii() and number.isdecimal() and len(number) <= REPLICA_DIGITS:
        return base, int(number)
    return device_id, None
