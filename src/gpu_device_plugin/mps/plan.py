"""Configuration and plan → the daemons that the node needs, and their limits.

Formulas, units and roundings are those of k8s-device-plugin v0.19.3 (mps/manager.go, device.go,
daemon.go): one daemon for every resource that is shared through MPS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpu_device_plugin.config.model import Config, SharingStrategy
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.resources.model import Device, Plan, Resource

MEBIBYTE = 1024 * 1024
VOLTA = (7, 0)
MAX_CLIENTS = 48
"""Clients of one GPU from Volta on (NVIDIA MPS documentation, "Volta MPS")."""
MAX_CLIENTS_BEFORE_VOLTA = 16


@dataclass(frozen=True, slots=True)
class DaemonSpec:
    """One daemon as it shall be. Two equal ones are the same daemon."""

    resource: str
    gpus: tuple[str, ...]
    """UUIDs of the GPUs, which are put into exclusive mode."""
    thread_percentage: int
    """Share of the GPU's threads that a client gets, in per cent."""
    memory_limits: tuple[tuple[int, int], ...] = ()
    """Index of a GPU, and how much of its memory a client gets, in MiB."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What a client gets, where that is not to be an equal share."""

    thread_percentage: int | None = None
    """From 1 to 100, which is no limit; None for an equal share."""
    memory_mebibytes: int | None = None
    """On every GPU; 0 for no limit, None for an equal share."""
    memory_by_gpu: Mapping[str, int] = field(default_factory=dict)
    """The same on single GPUs, by UUID or index; it takes precedence."""

    def memory_on(self, device: Device) -> int:
        """Its limit on a GPU, in MiB; 0 if there is none."""
        stated = self._stated(device)
        return memory_share(device) if stated is None else stated

    def lacks_size(self, device: Device) -> bool:
        """Whether an equal share is wanted of a GPU whose memory size is not known."""
        return self._stated(device) is None and not device.memory_bytes

    def _stated(self, device: Device) -> int | None:
        for name in (device.gpu_uuid, device.index):
            if name in self.memory_by_gpu:
                return self.memory_by_gpu[name]
        # A client that shares with nobody has the GPU to itself.
        return (
            0 if self.memory_mebibytes is None and device.replicas == 1 else self.memory_mebibytes
        )


EQUAL_SHARES = ClientLimits()


def plan_daemons(
    config: Config,
    inventory: Inventory,
    plan: Plan,
    limits: Mapping[str, ClientLimits] = MappingProxyType({}),
) -> tuple[DaemonSpec, ...]:
    """The daemons that the node needs, in the order of the resources.

    Args:
        config: what is asked for.
        inventory: the GPUs.
        plan: what follows from both.
        limits: by resource, what its clients get in place of equal shares.

    Raises:
        ConfigError: a GPU is shared by more containers than it takes as clients.
        HardwareError: MPS cannot be used on the GPUs.
    """
    if not config.uses_mps():
        return ()
    refuse_impossible(config, inventory, plan)
    return tuple(
        _daemon(resource, inventory, limits.get(resource.name, EQUAL_SHARES))
        for resource in plan.resources
        if is_shared(resource)
    )


def is_shared(resource: Resource) -> bool:
    """Whether the resource is shared through MPS, and so needs a daemon."""
    return resource.sharing is SharingStrategy.MPS


def refuse_impossible(
    config: Config, inventory: Inventory, plan: Plan, *, count_clients: bool = True
) -> None:
    """Refuses what no daemon can be had for, so that nothing waits for one.

    DEVIATION: k8s-device-plugin v0.19.3 starts daemons for MIG devices, Tegra and WSL, though
    the limits that it then sets do harm, and the plugin refuses them or waits for ever.

    Raises:
        ConfigError: a GPU is shared by more containers than it takes as clients.
        HardwareError: the platform or the GPUs cannot do MPS.
    """
    shared = [resource for resource in plan.resources if is_shared(resource)]
    if not config.uses_mps() or not shared:
        return
    if inventory.platform in {Platform.TEGRA, Platform.WSL}:
        what = "Tegra" if inventory.platform is Platform.TEGRA else "WSL"
        raise HardwareError(
            f"{shared[0].name} is to be shared, but MPS cannot be used on {what}",
            "its GPU has no compute mode to set and no limits to keep; use time-slicing",
        )
    for resource in shared:
        for device in resource.devices:
            if device.is_mig:
                raise HardwareError(
                    f"{resource.name} holds MIG device {device.index}, "
                    "and MPS cannot be used with MIG devices",
                    "disable MIG (nvidia-smi -mig 0), or use time-slicing",
                )
            if count_clients:
                _refuse_too_many(resource, device)


def max_clients(compute_capability: tuple[int, int] | None) -> int:
    """How many clients a GPU takes at once.

    DEVIATION: k8s-device-plugin v0.19.3 takes Volta (7.0 and 7.2) for an older one.
    """
    known = compute_capability or (0, 0)
    return MAX_CLIENTS if known >= VOLTA else MAX_CLIENTS_BEFORE_VOLTA


def _refuse_too_many(resource: Resource, device: Device) -> None:
    most = max_clients(device.compute_capability)
    if device.replicas > most:
        major, minor = device.compute_capability or (0, 0)
        raise ConfigError(
            f"replicas of {resource.name}: invalid device maximum allowed replicas exceeded: "
            f"{device.replicas} > {most}",
            f"GPU {device.index} has compute capability {major}.{minor}, "
            f"for which MPS takes {most} clients",
        )


def _daemon(resource: Resource, inventory: Inventory, limits: ClientLimits) -> DaemonSpec:
    shared = [device for device in resource.devices if device.is_replicated]
    gpus = tuple(dict.fromkeys(device.gpu_uuid for device in shared))
    replicas = sum(device.replicas for device in shared)
    return DaemonSpec(
        resource=resource.name,
        gpus=gpus,
        thread_percentage=limits.thread_percentage or 100 // (replicas // len(gpus)),
        # A limit of 0 must not be set: it would take the limit away.
        memory_limits=tuple(
            (device.gpu_index, limit) for device in shared if (limit := limits.memory_on(device))
        ),
        warnings=tuple(_warnings(shared, inventory, limits)),
    )


def memory_share(device: Device) -> int:
    """An equal share of a GPU's memory for each replica, in MiB; 0 if its size is not known."""
    return device.memory_bytes // device.replicas // MEBIBYTE


def _warnings(shared: list[Device], inventory: Inventory, limits: ClientLimits) -> Iterator[str]:
    for device in shared:
        if limits.lacks_size(device):
            yield f"no memory limit for GPU {device.index}: its memory size is not known"
        gpu = inventory.gpu(device.gpu_uuid)
        if gpu is not None and gpu.mig_enabled:
            yield f"GPU {device.index} has MIG enabled: MPS may not work there"
