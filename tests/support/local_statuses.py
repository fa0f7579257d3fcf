"""Statuses of simulated nodes, as they are read beside a kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.kubelet.podresources import ContainerDevices
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Resource
from gpu_device_plugin.resources.plan import make_plan
from gpu_device_plugin.status.local import HardwareRead, KubeletTold, LocalView, describe_node
from gpu_device_plugin.status.model import Illness, NodeStatus

NOW = 1_800_000_000.0
GPU = "nvidia.com/gpu"


def hardware(profile: str = "t4x4", replicas: int = 0, strategy: str = "mixed") -> HardwareRead:
    """A simulated node with its devices replicated."""
    parsed = parse(Program.DEVICE_PLUGIN, [], {"MIG_STRATEGY": strategy})
    loaded = load(parsed)
    inventory = SimulatedBackend.from_profile(profile).read()
    problem = ""
    resources: tuple[Resource, ...] = ()
    try:
        resources = make_plan(with_default_resources(loaded.config, inventory), inventory).resources
    except UserError as error:
        problem = str(error)
    if replicas:
        resources = tuple(
            Resource(r.name, tuple(replace(d, replicas=replicas) for d in r.devices))
            for r in resources
        )
    return HardwareRead(loaded, inventory, resources, plan_problem=problem, simulated=profile)


def uuids(read: HardwareRead) -> list[str]:
    assert read.inventory is not None
    return [gpu.uuid for gpu in read.inventory.gpus]


def everything(read: HardwareRead, but: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """All ids that are offered, as the kubelet tells them; without some."""
    ids = {r.name: tuple(i for i in r.ids() if i not in but) for r in read.resources}
    return {name: those for name, those in ids.items() if those}


def held(pod: str, *ids: str, resource: str = GPU, namespace: str = "ml") -> ContainerDevices:
    return ContainerDevices(namespace, pod, "main", {resource: ids})


def status_of(
    read: HardwareRead,
    containers: Sequence[ContainerDevices] = (),
    allocatable: Mapping[str, tuple[str, ...]] | None = None,
    problems: Mapping[str, str] | None = None,
) -> NodeStatus:
    """The status of a node whose kubelet tells everything."""
    told = KubeletTold(tuple(containers), everything(read) if allocatable is None else allocatable)
    view = LocalView.of(read, told)
    return describe_node(view, problems or {}, node="node-1", now=NOW, started=NOW)


def example() -> NodeStatus:
    """A DGX A100 whose GPUs are shared by four: one has broken, one is held as before sharing."""
    read = hardware("dgx-a100", replicas=4)
    ids = uuids(read)
    containers = [
        held("train-0", *(f"{ids[n]}::{m}" for n in (0, 1) for m in range(4))),
        held("notebook-7d9f", f"{ids[2]}::0", namespace="team-a"),
        held("notebook-x2k8", f"{ids[2]}::3", f"{ids[3]}::1", namespace="team-b"),
        held("batch-41", ids[6], namespace="team-b"),
    ]
    sick = [f"{ids[1]}::{n}" for n in range(4)]
    status = status_of(read, containers, everything(read, but=sick))
    (resource,) = status.resources
    illness = Illness(
        "XID 79", "GPU has fallen off the bus", "until-reset", NOW - 740, NOW - 700, 2
    )
    devices = tuple(
        replace(device, illness=illness) if device.index == "1" else device
        for device in resource.devices
    )
    resource = replace(
        resource, sharing="time-slicing", state="registered", streams=1, devices=devices
    )
    return replace(
        status,
        program="nvidia-device-plugin",
        version="0.19.3",
        started=NOW - 400_000,
        resources=(resource,),
    )
