"""Gauges of the plugin that are looked up at the moment of a scrape.

Nothing here goes over replicas, so that a scrape costs little however many are offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import product

from prometheus_client.core import GaugeMetricFamily

from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.observation import Observation, ObservedResource
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.status.collect import Holders, cuda_text
from gpu_device_plugin.status.metrics.kinds import NAMESPACE
from gpu_device_plugin.status.metrics.names import Names, label_text, xid_label


class Cause(StrEnum):
    """Why a device is unhealthy, in classes that are few enough for a label."""

    XID = "xid"
    LOST = "lost"
    UNWATCHABLE = "unwatchable"
    """The driver refuses to watch this GPU."""
    UNWATCHED = "unwatched"
    """The health monitor has not started; nothing else is known against the device."""
    DRIVER = "driver"
    """The driver failed otherwise, as when the monitor lost it."""


CAUSES = {
    Severity.LOST: Cause.LOST,
    Severity.UNWATCHABLE: Cause.UNWATCHABLE,
    Severity.PROVISIONAL: Cause.UNWATCHED,
}
"""Severities that are causes."""


def cause_of(ailment: Ailment) -> Cause:
    """The class of an ailment."""
    cause = CAUSES.get(ailment.severity)
    if cause is not None:
        return cause
    return Cause.DRIVER if xid_of(ailment) is None else Cause.XID


def xid_of(ailment: Ailment) -> int | None:
    """The XID that an ailment names; None if it is something else."""
    word, _, number = ailment.reason.partition(" ")
    return int(number) if word == "XID" and number.isdecimal() else None


def family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    """A gauge without samples yet."""
    return GaugeMetricFamily(f"{NAMESPACE}_{name}", text, labels=labels)


def single(name: str, text: str, value: float) -> GaugeMetricFamily:
    """A gauge without labels."""
    return GaugeMetricFamily(f"{NAMESPACE}_{name}", text, value=value)


def one_of(gauge: GaugeMetricFamily, states: type[StrEnum], now: str, *labels: str) -> None:
    """A sample for each state: 1 for that of now, 0 for the others."""
    for state in states:
        gauge.add_metric([*labels, state.name.lower()], state == now)


def observed_families(
    seen: Observation, holders: Holders | None, resources: Names
) -> Iterator[GaugeMetricFamily]:
    """The gauges of what the plugin serves.

    Args:
        seen: what it serves.
        holders: who holds what; None if nobody tells.
        resources: tells the label value of a resource.
    """
    names = [resources(observed.resource.name) for observed in seen.resources]
    yield from _devices(seen.resources, names, holders)
    yield from _serving(seen.resources, names)
    yield from _gpus(seen)
    yield _gpu_info(seen.node)
    yield _driver_info(seen.node)
    yield from _monitor(seen)
    yield _problems(seen)


def _devices(
    resources: Sequence[ObservedResource], names: Sequence[str], holders: Holders | None
) -> Iterator[GaugeMetricFamily]:
    offered = family("devices", "Devices that are offered, replicas counted.", "resource")
    healthy = family("devices_allocatable", "Of these, how many are healthy.", "resource")
    unhealthy = family(
        "devices_unhealthy", "Of these, how many are unhealthy, and why.", "resource", "cause"
    )
    held = family("devices_in_use", "Of these, how many containers hold.", "resource")
    for name, observed in zip(names, resources, strict=True):
        size = observed.resource.size
        causes = Counter[Cause]()
        for device in observed.resource.devices if observed.ailments else ():
            ailment = observed.ailments.get(device.id)
            if ailment is not None:
                causes[cause_of(ailment)] += device.replicas or 1
        offered.add_metric([name], size)
        healthy.add_metric([name], size - causes.total())
        for cause in Cause:
            unhealthy.add_metric([name, cause], causes[cause])
        if holders is not None:
            held.add_metric([name], _held(observed, holders))
    yield from (offered, healthy, unhealthy, held)


def _held(observed: ObservedResource, holders: Holders) -> int:
    resource = observed.resource
    return sum(
        len(holder.replicas) or 1
        for device in resource.devices
        for holder in holders.get((resource.name, device.id), ())
    )


def _serving(
    resources: Sequence[ObservedResource], names: Sequence[str]
) -> Iterator[GaugeMetricFamily]:
    state = family(
        "resource_state", "How far a resource has come: 1 for that.", "resource", "state"
    )
    streams = family("streams_open", "Streams that the kubelet has open.", "resource")
    sharing = family("resource_info", "How a resource is shared.", "resource", "sharing")
    for name, observed in zip(names, resources, strict=True):
        one_of(state, State, observed.state, name)
        streams.add_metric([name], observed.open_streams)
        sharing.add_metric([name, str(observed.resource.sharing)], 1)
    yield from (state, streams, sharing)


def _gpus(seen: Observation) -> Iterator[GaugeMetricFamily]:
    """How many there are, and what is known against each."""
    inventory = None if seen.node is None else seen.node.inventory
    gpus = () if inventory is None else inventory.gpus
    count = family("gpus", "GPUs that the driver counts, or has counted.", "state")
    lost = sum(1 for gpu in gpus if gpu.lost)
    count.add_metric(["readable"], len(gpus) - lost)
    count.add_metric(["lost"], lost)
    count.add_metric(["unreadable"], 0 if inventory is None else len(inventory.unreadable))
    yield count
    unhealthy = family(
        "gpu_unhealthy", "Whether a device of the GPU is unhealthy for that.", "gpu", "cause"
    )
    xids = family(
        "gpu_unhealthy_xid",
        "Present with 1 as long as a GPU is unhealthy for an XID.",
        "gpu",
        "xid",
    )
    found = {(str(gpu.index), Cause.LOST) for gpu in gpus if gpu.lost}
    numbers = set[tuple[str, str]]()
    for observed in seen.resources:
        for device in observed.resource.devices if observed.ailments else ():
            ailment = observed.ailments.get(device.id)
            if ailment is None:
                continue
            index, xid = str(device.gpu_index), xid_of(ailment)
            found.add((index, cause_of(ailment)))
            if xid is not None:
                numbers.add((index, xid_label(xid)))
    for gpu, cause in product(gpus, Cause):
        unhealthy.add_metric([str(gpu.index), cause], (str(gpu.index), cause) in found)
    for labels in sorted(numbers):
        xids.add_metric(labels, 1)
    yield from (unhealthy, xids)


def _gpu_info(node: Node | None) -> GaugeMetricFamily:
    info = family("gpu_info", "What a GPU is.", "gpu", "uuid", "model", "pci_bus_id", "mig")
    for gpu in () if node is None else node.gpus:
        texts = (str(gpu.index), gpu.uuid, gpu.name, gpu.pci_bus_id)
        info.add_metric([*map(label_text, texts), str(gpu.mig_enabled).lower()], 1)
    return info


def _driver_info(node: Node | None) -> GaugeMetricFamily:
    info = family("driver_info", "What reads the GPUs.", "platform", "driver", "cuda")
    if node is not None and node.inventory is not None:
        inventory = node.inventory
        cuda = cuda_text(inventory.cuda_driver_version)
        info.add_metric([str(inventory.platform), label_text(inventory.driver_version), cuda], 1)
    return info


def _monitor(seen: Observation) -> Iterator[GaugeMetricFamily]:
    state = family("health_monitor_state", "How far the watching of health has come.", "state")
    one_of(state, WatchState, seen.watch)
    yield state
    yield single(
        "links_known", "Whether the links between GPUs have been read.", seen.links is not None
    )


def _problems(seen: Observation) -> GaugeMetricFamily:
    """Why not everything that is wanted is in force; the status page has the words."""
    problems = family("problem", "Whether something keeps devices from being offered.", "kind")
    reload = seen.last_reload
    problems.add_metric(["driver"], seen.node is not None and bool(seen.node.init_problem))
    problems.add_metric(["offer"], bool(seen.offer_problem))
    problems.add_metric(["configuration"], reload is not None and bool(reload.error))
    return problems
