"""Configurations without files."""

from __future__ import annotations

from dataclasses import replace

from gpu_device_plugin.config.model import (
    Config,
    Flags,
    PluginFlags,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
)

DEFAULTS = Config(
    flags=Flags(
        mig_strategy="none",
        fail_on_init_error=True,
        mps_root="",
        nvidia_driver_root="/",
        nvidia_dev_root="/",
        gdrcopy_enabled=False,
        gds_enabled=False,
        mofed_enabled=False,
        device_discovery_strategy="auto",
        plugin=PluginFlags(
            pass_device_specs=False,
            device_list_strategy=("envvar",),
            device_id_strategy="uuid",
            cdi_annotation_prefix="cdi.k8s.io/",
            nvidia_ctk_path="/usr/bin/nvidia-ctk",
            container_driver_root="/driver-root",
        ),
    )
)


def a_config(**flags: object) -> Config:
    """The defaults of the plugin, with some flags changed; plugin flags have their own names."""
    plugin = {k: v for k, v in flags.items() if k in PluginFlags.__dataclass_fields__}
    common = {k: v for k, v in flags.items() if k not in plugin}
    return replace(
        DEFAULTS,
        flags=replace(
            DEFAULTS.flags,
            plugin=replace(DEFAULTS.flags.plugin, **plugin),  # type: ignore[arg-type]  # by name
            **common,  # type: ignore[arg-type]  # as above
        ),
    )


def time_sliced(
    replicas: int, *, name: str = "nvidia.com/gpu", rename: str = "", single: bool | None = None
) -> Sharing:
    """Time-slicing of one resource."""
    entry = ReplicatedResource(name, replicas, rename)
    return Sharing(ReplicatedResources(False, single, (entry,)))
