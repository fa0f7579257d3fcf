"""``extensions.mps`` → what the clients of each resource get in place of equal shares."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.model_mps import MpsLimits
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.mps.plan import ClientLimits, is_shared
from gpu_device_plugin.resources.model import Plan


def find_limits(
    config: Config, inventory: Inventory, plan: Plan, warnings: list[str]
) -> dict[str, ClientLimits]:
    """The limits that the configuration sets, by the names under which resources are offered.

    Args:
        config: what is asked for.
        inventory: the GPUs.
        plan: what follows from both.
        warnings: takes what in the settings is about nothing on this node.
    """
    entries = config.extensions.mps.resources
    if not entries:
        return {}
    names = {r.name: _names(config, r.name) for r in plan.resources if is_shared(r)}
    deciding: dict[str, int] = {}
    for number, entry in enumerate(entries):
        origin = f"extensions.mps.resources[{number}]"
        offered = [resource for resource, known in names.items() if entry.name in known]
        if not offered:
            warnings.append(f"{origin}: {entry.name} is not shared through MPS on this node")
        for resource in offered:
            first = deciding.setdefault(resource, number)
            if entry.name != entries[first].name:
                warnings.append(
                    f"{origin}: without effect after extensions.mps.resources[{first}], "
                    f"which is about {resource} as well"
                )
    return {
        resource: _limits(
            entries[number], f"extensions.mps.resources[{number}]", inventory, warnings
        )
        for resource, number in deciding.items()
    }


def _names(config: Config, offered: str) -> set[str]:
    """Every name by which the settings may call a resource."""
    mps = config.sharing.mps
    renamed = mps.resources if mps is not None else ()
    return {offered, *(entry.name for entry in renamed if entry.shared_name == offered)}


def _limits(
    entry: MpsLimits, origin: str, inventory: Inventory, warnings: list[str]
) -> ClientLimits:
    return ClientLimits(
        thread_percentage=entry.active_thread_percentage,
        memory_mebibytes=entry.memory_limit,
        memory_by_gpu=_by_uuid(entry, origin, inventory, warnings),
    )


def _by_uuid(
    entry: MpsLimits, origin: str, inventory: Inventory, warnings: list[str]
) -> Mapping[str, int]:
    """The limits of single GPUs; a UUID, in whatever case, comes before an index."""
    uuids = {gpu.uuid.lower(): gpu.uuid for gpu in inventory.gpus}
    indices = {str(gpu.index): gpu.uuid for gpu in inventory.gpus}
    unreadable = {str(gpu.index) for gpu in inventory.unreadable}
    by_index: dict[str, int] = {}
    by_uuid: dict[str, int] = {}
    for reference, limit in entry.memory_limit_by_gpu.items():
        if reference.lower() in uuids:
            by_uuid[uuids[reference.lower()]] = limit
        elif reference in indices:
            by_index[indices[reference]] = limit
        elif reference not in unreadable:
            warnings.append(f"{origin}.memoryLimitByGpu: this node has no GPU {reference}")
    return by_index | by_uuid
