"""Configuration and inventory → the devices of each resource.

The rules are those of k8s-device-plugin v0.19.3 (internal/rm: device_map.go, nvml_manager.go,
tegra_manager.go), with fixed orders in place of its random ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_device_plugin.config.model import Config, MigStrategy, ResourcePattern
from gpu_device_plugin.config.patterns import matches
from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.hardware.mig_minors import MIG_MINORS_FILE
from gpu_device_plugin.hardware.model import Gpu, Inventory, MigDevice, Platform
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Device, Plan
from gpu_device_plugin.resources.selection import (
    TEGRA_NAME,
    WSL_NAME,
    Identity,
    identities,
    is_selected,
    select_gpus,
    selection_warnings,
)
from gpu_device_plugin.resources.sharing import Offer, make_resource, offer_devices

WSL_DEVICE = Device(id=WSL_NAME, index=WSL_NAME, paths=("/dev/dxg",))

DeviceMap = dict[str, dict[str, Device]]
"""Devices by resource name, then id; a second device of one id replaces the first."""


def plan_node(config: Config, inventory: Inventory) -> Plan:
    """What the node offers with a validated configuration; raises as `make_plan` does."""
    return make_plan(with_default_resources(config, inventory), inventory)


def make_plan(config: Config, inventory: Inventory) -> Plan:
    """What the node offers.

    Args:
        config: validated, with its default resources filled in.
        inventory: what was read of the hardware.

    Raises:
        HardwareError: the GPUs cannot be offered as the MIG strategy asks, or none of the GPUs
            that are there can be read.
        ConfigError: the devices cannot be shared as the configuration says.
    """
    selected = select_gpus(config, inventory)
    warnings = [f"GPU {gpu.index} is left out: {gpu.reason}" for gpu in selected.unreadable]
    if inventory.platform is Platform.TEGRA:
        devices = _tegra_devices(config, selected)
    else:
        gpus = tuple(_usable(config, selected, warnings))
        if not gpus and warnings:
            raise HardwareError("no GPU can be used: " + "; ".join(warnings))
        devices = _nvml_devices(config, selected, gpus, warnings)
    warnings.extend(selection_warnings(config, inventory))
    warnings.extend(_ineffective_selection(selected, inventory))
    by_name: dict[str, list[Offer]] = {}
    for offer in offer_devices(config, devices, identities(selected), warnings):
        by_name.setdefault(offer.resource, []).append(offer)
    is_discrete = inventory.platform not in {Platform.WSL, Platform.TEGRA}
    return Plan(
        resources=tuple(
            make_resource(name, offers, is_discrete=is_discrete)
            for name, offers in sorted(by_name.items())
        ),
        warnings=tuple(warnings),
    )


def _ineffective_selection(selected: Inventory, inventory: Inventory) -> Iterator[str]:
    if inventory.gpus and not selected.gpus:
        yield f"extensions.gpus leaves none of the {len(inventory.gpus)} GPUs"
    elif inventory.platform is Platform.WSL and selected.gpus != inventory.gpus:
        yield "extensions.gpus cannot leave out single GPUs on WSL, which has one device for all"


def _usable(config: Config, inventory: Inventory, warnings: list[str]) -> Iterator[Gpu]:
    """GPUs whose MIG state is known where the strategy depends on it."""
    for gpu in inventory.gpus:
        problem = mig_problem_of(gpu, config.flags.mig_strategy)
        if problem:
            warnings.append(f"GPU {gpu.index} is left out, its MIG state is unknown: {problem}")
        else:
            yield gpu


def mig_problem_of(gpu: Gpu, strategy: str | None) -> str:
    """What is not known of a GPU though a MIG strategy asks for it; empty if nothing is missing.

    Only ``mixed`` asks what a GPU can be cut into, as its resources follow from that.
    """
    if strategy == MigStrategy.NONE:
        return ""
    possible = gpu.mig_profiles_problem if strategy == MigStrategy.MIXED else ""
    return gpu.mig_problem or possible


def _tegra_devices(config: Config, inventory: Inventory) -> DeviceMap:
    devices: DeviceMap = {}
    if not is_selected(config.extensions.gpus, Identity.of_tegra(inventory)):
        return devices
    entries = [e for e in config.resources.gpus or () if matches(e.pattern, TEGRA_NAME)]
    for number, entry in enumerate(entries[:1]):
        device = Device(
            id=TEGRA_NAME, index=str(number), gpu_index=number, compute_capability=(0, 0)
        )
        devices.setdefault(entry.name, {})[device.id] = device
    return devices


def _nvml_devices(
    config: Config, inventory: Inventory, gpus: tuple[Gpu, ...], warnings: list[str]
) -> DeviceMap:
    strategy = config.flags.mig_strategy
    devices: DeviceMap = {}
    for gpu in gpus:
        if gpu.mig_enabled and strategy != MigStrategy.NONE:
            continue
        name = _first_match(config.resources.gpus or (), gpu.name, f"GPU {gpu.index}")
        device = WSL_DEVICE if inventory.platform is Platform.WSL else _gpu_device(gpu)
        devices.setdefault(name, {})[device.id] = device
    if strategy == MigStrategy.NONE:
        return devices
    whole = bool(devices)
    cut = [gpu for gpu in gpus if gpu.mig_enabled]
    for gpu in cut:
        for mig in gpu.mig_devices:
            what = f"MIG device {gpu.index}:{mig.slot}"
            name = _first_match(config.resources.mig, str(mig.profile), what)
            devices.setdefault(name, {})[mig.uuid] = _mig_device(gpu, mig)
    if strategy == MigStrategy.SINGLE:
        _require_uniform(cut, whole=whole)
    else:
        warnings.extend(
            f"GPU {gpu.index} has MIG enabled but no MIG devices: it offers nothing"
            for gpu in cut
            if not gpu.mig_devices
        )
    return devices


def _first_match(entries: Iterable[ResourcePattern], name: str, what: str) -> str:
    for entry in entries:
        if matches(entry.pattern, name):
            return entry.name
    raise HardwareError(f"{what} ({name}) matches no resource pattern")


def _require_uniform(cut: list[Gpu], *, whole: bool) -> None:
    """What the strategy ``single`` demands of the GPUs with MIG enabled."""
    hint = "the MIG strategy 'mixed' takes such nodes (--mig-strategy, MIG_STRATEGY)"
    empty = [str(gpu.index) for gpu in cut if not gpu.mig_devices]
    if empty:
        raise HardwareError(
            f"the MIG strategy 'single' needs MIG devices on every GPU with MIG enabled; "
            f"there are none on GPU {', '.join(empty)}",
            "create them (nvidia-smi mig -cgi) or disable MIG there",
        )
    kinds = {mig.attributes: str(mig.profile) for gpu in cut for mig in gpu.mig_devices}
    if len(kinds) > 1:
        found = ", ".join(sorted(kinds.values()))
        raise HardwareError(
            f"the MIG strategy 'single' needs MIG devices of one kind on all GPUs; found {found}",
            hint,
        )
    if cut and whole:
        raise HardwareError(
            "the MIG strategy 'single' needs MIG enabled on all GPUs or on none; "
            f"it is enabled on GPU {', '.join(str(gpu.index) for gpu in cut)} only",
            hint,
        )


def _gpu_device(gpu: Gpu) -> Device:
    return Device(
        id=gpu.uuid,
        index=str(gpu.index),
        paths=(f"/dev/nvidia{gpu.minor}",),
        numa_node=gpu.numa_node,
        gpu_uuid=gpu.uuid,
        gpu_index=gpu.index,
        memory_bytes=gpu.memory_bytes,
        compute_capability=gpu.compute_capability,
    )


def _mig_device(gpu: Gpu, mig: MigDevice) -> Device:
    if mig.capability_minors is None:
        raise HardwareError(
            f"no capability nodes are known for MIG device {gpu.index}:{mig.slot} "
            f"(gpu{gpu.minor}/gi{mig.gpu_instance}/ci{mig.compute_instance})",
            f"{MIG_MINORS_FILE} should list them",
        )
    return Device(
        id=mig.uuid,
        index=f"{gpu.index}:{mig.slot}",
        paths=(
            f"/dev/nvidia{gpu.minor}",
            *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in mig.capability_minors),
        ),
        numa_node=gpu.numa_node,
        gpu_uuid=gpu.uuid,
        gpu_index=gpu.index,
        mig_instances=(mig.gpu_instance, mig.compute_instance),
        memory_bytes=mig.memory_bytes,
        compute_capability=gpu.compute_capability,
    )
