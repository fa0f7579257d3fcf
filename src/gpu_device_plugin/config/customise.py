"""Custom resource names and selections of devices, which count only if that is asked for.

Else they are checked and then dropped, as k8s-device-plugin v0.19.3 does (api/config/v1/config.go,
DisableResourceNamingInConfig).
"""

from __future__ import annotations

from dataclasses import replace

from gpu_device_plugin.config.diagnostics import ConfigWarning, Place
from gpu_device_plugin.config.model import (
    Config,
    DeviceSelector,
    ReplicatedResource,
    ReplicatedResources,
    Resources,
)
from gpu_device_plugin.config.names import shared_name

EVERY_DEVICE = DeviceSelector()
CURE = "unless extensions.honourNames is true"


def disable_customisation(
    config: Config, file: str = ""
) -> tuple[Config, tuple[ConfigWarning, ...]]:
    """The configuration without custom names and selections, and a warning for what was lost.

    With ``extensions.honourNames`` nothing is.
    """
    if config.extensions.honour_names:
        return config, ()
    warnings: list[ConfigWarning] = []
    if config.resources.gpus or config.resources.mig:
        place = Place(file, path="resources")
        warnings.append(ConfigWarning(place, "custom resource names are ignored", CURE))
    sharing = config.sharing
    time_slicing = _disable(sharing.time_slicing, Place(file, path="sharing.timeSlicing"), warnings)
    mps = sharing.mps and _disable(sharing.mps, Place(file, path="sharing.mps"), warnings)
    return replace(
        config,
        resources=Resources(),
        sharing=replace(sharing, time_slicing=time_slicing, mps=mps),
    ), tuple(warnings)


def _disable(
    section: ReplicatedResources, place: Place, warnings: list[ConfigWarning]
) -> ReplicatedResources:
    """The section with default names and all devices; one warning for each kind of loss."""
    kept = tuple(
        replace(
            resource,
            rename=_only_name(resource, by_default=section.rename_by_default),
            devices=EVERY_DEVICE,
        )
        for resource in section.resources
    )
    pairs = list(zip(section.resources, kept, strict=True))
    if any(before.rename != after.rename for before, after in pairs):
        warnings.append(
            ConfigWarning(
                place, "custom names (rename) are ignored", f"renameByDefault decides, {CURE}"
            )
        )
    if any(before.devices != after.devices for before, after in pairs):
        warnings.append(
            ConfigWarning(place, "the selection of devices is ignored", f"all are shared, {CURE}")
        )
    return replace(section, resources=kept)


def _only_name(resource: ReplicatedResource, *, by_default: bool) -> str:
    return shared_name(resource.name) if by_default else ""
