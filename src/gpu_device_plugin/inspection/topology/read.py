"""Reads how the GPUs of a node are connected, and which of them the plugin chooses among."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.errors import InitError, UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.inspection.topology.model import Topology, make_topology
from gpu_device_plugin.resources.model import Plan, Resource
from gpu_device_plugin.resources.plan import plan_node


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found, and what should be said about it."""

    topology: Topology
    notes: tuple[str, ...] = ()
    """Why not all GPUs are chosen among."""


def survey(config: Config, backend: Backend, source: str = "") -> Survey:
    """Reads GPUs and links by the steps of the plugin.

    Raises:
        HardwareError: the driver cannot be used.
    """
    inventory = backend.read()
    try:
        links = backend.read_links(inventory, lambda: False)
    except InitError as error:
        links = Links(problems=(str(error),))
    topology = make_topology(inventory, links, source=source)
    try:
        plan = _plan(config, backend, inventory)
    except UserError as error:
        return Survey(topology, (f"the plugin would offer nothing: {error}",))
    return _with_offers(topology, plan)


def _plan(config: Config, backend: Backend, inventory: Inventory) -> Plan:
    validate_plugin(config, backend.is_loadable)
    return plan_node(config, inventory)


def _with_offers(topology: Topology, plan: Plan) -> Survey:
    """Only the GPUs of one resource can be in one answer: those of the largest one count."""
    resources = [resource for resource in plan.resources if _is_by_links(resource)]
    if not resources:
        note = "no resource offers whole, unshared GPUs: the links decide nothing"
        return Survey(replace(topology, offered=()), (note,) if topology.gpus else ())
    chosen = max(resources, key=lambda resource: resource.size)
    uuids = {device.gpu_uuid for device in chosen.devices}
    offered = tuple(n for n, gpu in enumerate(topology.gpus) if gpu.uuid in uuids)
    others = ", ".join(resource.name for resource in resources if resource is not chosen)
    note = f"the GPUs of {chosen.name} are chosen among; --available names those of {others}"
    return Survey(
        replace(topology, resource=chosen.name, offered=offered), (note,) if others else ()
    )


def _is_by_links(resource: Resource) -> bool:
    """Whether the plugin chooses among its devices by links, as it does not among replicas."""
    return resource.is_plain_gpus and not any(device.is_replicated for device in resource.devices)
