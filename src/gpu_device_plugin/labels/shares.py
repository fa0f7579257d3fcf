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
class Terms:
    """How everything on a node is shared."""

    sharing: Sharing
    planned: Mapping[str, Shares] | None = None
    """By UUID, or under an empty text for all devices; None where the section decides."""
    problem: str = ""
    """Why it is not planned as it should be."""

    def of(self, resource: str, uuid: str) -> Shares:
        """How a device is shared that goes to a resource unless it is renamed."""
        if self.planned is None:
            return shares_of(self.sharing, resource)
        return self.planned.get(uuid) or self.planned.get("") or NOT_OFFERED

    def uses_mps(self) -> bool:
        """Whether any device is shared through MPS, as far as the configuration goes."""
        if self.planned is None:
            return self.sharing.strategy is SharingStrategy.MPS
        return any(shares.strategy == SharingStrategy.MPS for shares in self.planned.values())


def find_terms(config: Config, inventory: Inventory) -> Terms:
    """How the devices of a node are shared."""
    if not config.extensions.sharing and not config.extensions.honour_names:
        return Terms(config.sharing)
    try:
        return Terms(config.sharing, _planned(config, inventory))
    except (ConfigError, HardwareError) as error:
        return Terms(config.sharing, {}, str(error))


def shares_of(sharing: Sharing, resource: str) -> Shares:
    """How a resource is shared by the section ``sharing``."""
    for entry in sharing.replicated.resources:
        if entry.name == resource:
            suffixes = () if entry.rename else (SHARED,)
            return Shares(entry.replicas, str(sharing.strategy), suffixes)
    return Shares(1, str(SharingStrategy.NONE))


def _planned(config: Config, inventory: Inventory) -> dict[str, Shares]:
    # Only for whoever uses these settings.
    from gpu_device_plugin.resources.defaults import with_default_resources  # noqa: PLC0415
    from gpu_device_plugin.resources.plan import make_plan  # noqa: PLC0415

    complete = with_default_resources(config, inventory)
    defaults = with_default_resources(
        Config(flags=config.flags, extensions=config.extensions), inventory
    )
    usual = {item.name for item in (*(defaults.resources.gpus or ()), *defaults.resources.mig)}
    found = dict[str, Shares]()
    for resource in make_plan(complete, inventory).resources:
        for device in resource.devices:
            is_named_as_ever = device.is_replicated and resource.name in usual
            # The one device of a Tegra or of WSL stands for all.
            found[device.id if device.gpu_uuid else ""] = Shares(
                device.replicas or 1,
                str(resource.sharing),
                (SHARED,) if is_named_as_ever else (),
            )
    return found
