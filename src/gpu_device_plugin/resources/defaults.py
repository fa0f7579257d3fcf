"""The resources that a node offers by default (k8s-device-plugin v0.19.3, AddDefaultResources)."""

from __future__ import annotations

from dataclasses import replace

from gpu_device_plugin.config.model import Config, MigStrategy, ResourcePattern, Resources
from gpu_device_plugin.config.names import resource_name
from gpu_device_plugin.hardware.model import Inventory

GPU_RESOURCE = "nvidia.com/gpu"
EVERYTHING = ResourcePattern("*", GPU_RESOURCE)


def mig_resource_name(profile: str) -> str:
    """The resource of a MIG profile under the strategy ``mixed``: ``nvidia.com/mig-1g.10gb.me``.

    Raises:
        ConfigError: the profile makes no valid resource name.
    """
    return resource_name("mig-" + profile.replace("+", "."))


def with_default_resources(config: Config, inventory: Inventory | None) -> Config:
    """The configuration with the resources filled in that follow from strategy and hardware.

    Under ``mixed`` every profile that a GPU can be cut into is a resource of its own, and so is
    every other profile that is in use (such as ``1c.2g.10gb``).
    """
    strategy = config.flags.mig_strategy
    mig: tuple[ResourcePattern, ...] = ()
    if strategy == MigStrategy.SINGLE:
        mig = (EVERYTHING,)
    elif strategy == MigStrategy.MIXED and inventory is not None:
        profiles = dict.fromkeys(p for gpu in inventory.gpus for p in gpu.mig_profiles)
        profiles.update(dict.fromkeys(str(mig.profile) for _, mig in inventory.mig_pairs()))
        mig = tuple(ResourcePattern(p, mig_resource_name(p)) for p in profiles)
    given = config.resources
    return replace(
        config,
        resources=Resources(
            gpus=(*(given.gpus or ()), EVERYTHING),
            mig=(*given.mig, *mig),
        ),
    )
