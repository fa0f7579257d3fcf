"""How GPUs and MIG devices are shared, as labels tell it.

By the section ``sharing`` as in k8s-device-plugin v0.19.3: the first entry with the name of the
resource counts, and which devices it selects does not matter. Where settings of our own decide
(``extensions``) it is what nvidia-device-plugin plans with the same configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_device_plugin.config.model import Config, Sharing, SharingStrategy
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.model import Inventory

SHARED = "SHARED"


@dataclass(frozen=True, slots=True)
class Shares:
    """How the devices of a resource are shared."""

    replicas: int
    strategy: str
    suffixes: tuple[str, ...] = ()
    """What the product's name ends with."""


NOT_OFFERED = Shares(0, str(SharingStrategy.NONE))
"""A GPU that is cut into MIG devices is not offered as a whole."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is planned for a device."""

    resource: str
    replicas: int
    strategy: SharingStrategy


@dataclass(frozen=True, slots=True)
class Terms:
    """How everything on a node is shared."""

    sharing: Sharing
    planned: Mapping[str, Planned] | None = None
    """By UUID, or under an empty text for all devices; None where the section decides."""
    problem: str = ""
    """Why nothing can be planned."""

    def of(self, resource: str, uuid: str) -> Shares:
        """How a device is shared that goes to a resource unless it is renamed."""
        if self.planned is None:
            return shares_of(self.sharing, resource)
        found = self.planned.get(uuid) or self.planned.get("")
        if found is None:
            return NOT_OFFERED
        is_renamed = found.resource != resource
        suffixes = () if is_renamed or found.strategy is SharingStrategy.NONE else (SHARED,)
        return Shares(found.replicas, str(found.strategy), suffixes)

    def uses_mps(self) -> bool:
        """Whether any device is to be shared through MPS."""
        if self.planned is None:
            return self.sharing.strategy is SharingStrategy.MPS
        return any(device.strategy is SharingStrategy.MPS for device in self.planned.values())


def find_terms(config: Config, inventory: Inventory) -> Terms:
    """How the devices of a node are shared."""
    if not config.extensions.sharing and not config.extensions.honour_names:
        return Terms(config.sharing)
    try:
        return Terms(config.sharing, _plan(config, inventory))
    except (ConfigError, HardwareError) as error:
        return Terms(config.sharing, {}, str(error))


def shares_of(sharing: Sharing, resource: str) -> Shares:
    """How a resource is shared by the section ``sharing``."""
    for entry in sharing.replicated.resources:
        if entry.name == resource:
            suffixes = () if entry.rename else (SHARED,)
            return Shares(entry.replicas, str(sharing.strategy), suffixes)
    return Shares(1, str(SharingStrategy.NONE))


def _plan(config: Config, inventory: Inventory) -> dict[str, Planned]:
    # For whoever uses these settings only.
    from gpu_device_plugin.resources.plan import plan_node  # noqa: PLC0415

    plan = plan_node(config, inventory)
    # The one device of a Tegra or of WSL stands for all.
    return {
        device.id if device.gpu_uuid else "": Planned(
            resource.name, device.replicas or 1, resource.sharing
        )
        for resource in plan.resources
        for device in resource.devices
    }
