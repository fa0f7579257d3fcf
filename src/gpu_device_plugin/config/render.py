"""The configuration as JSON, for the log (k8s-device-plugin v0.19.3, api/config/v1)."""

from __future__ import annotations

import re
from typing import Any

from gpu_device_plugin.config import selectors
from gpu_device_plugin.config.durations import format_duration
from gpu_device_plugin.config.keys_extensions import EXCLUSIVE
from gpu_device_plugin.config.model import (
    AllocationPolicy,
    Config,
    Extensions,
    Flags,
    GfdFlags,
    GpuSelection,
    GpuSharing,
    HealthSettings,
    Imex,
    PluginFlags,
    ReplicatedResource,
    ReplicatedResources,
    ResourcePattern,
    Resources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.config.model_mps import MpsLimits
from gpu_device_plugin.config.quantities import format_mebibytes

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_SPECIAL = "[<>&\u2028\u2029\ud800-\udfff]"


def render(config: Config) -> str:
    """The JSON that the original prints at its start, indented by two blanks.

    Characters are escaped as Go's encoding/json does; bytes that are not UTF-8 become U+FFFD.
    A setting that v0.19.3 lacks is printed only if it is not at its default.
    """
    import json  # noqa: PLC0415 - used once per start

    text = json.dumps(_config(config), indent=2, ensure_ascii=False)
    return re.sub(_SPECIAL, lambda match: _ESCAPES.get(match[0], "\\ufffd"), text)


def _config(config: Config) -> dict[str, Any]:
    return {
        "version": config.version,
        "flags": _flags(config.flags),
        "resources": _resources(config.resources),
        "sharing": _sharing(config.sharing),
        "imex": _imex(config.imex),
        **_without_empty(extensions=_extensions(config.extensions)),
    }


def _flags(flags: Flags) -> dict[str, Any]:
    return {
        "migStrategy": flags.mig_strategy,
        "failOnInitError": flags.fail_on_init_error,
        **_without_null(
            mpsRoot=flags.mps_root,
            nvidiaDriverRoot=flags.nvidia_driver_root,
            nvidiaDevRoot=flags.nvidia_dev_root,
        ),
        "gdrcopyEnabled": flags.gdrcopy_enabled,
        "gdsEnabled": flags.gds_enabled,
        "mofedEnabled": flags.mofed_enabled,
        "useNodeFeatureAPI": flags.use_node_feature_api,
        "deviceDiscoveryStrategy": flags.device_discovery_strategy,
        "plugin": _plugin(flags.plugin),
        **_without_null(gfd=flags.gfd and _gfd(flags.gfd)),
    }


def _plugin(flags: PluginFlags) -> dict[str, Any]:
    strategies = flags.device_list_strategy
    policy = flags.shared_devices_allocation_policy
    return {
        "passDeviceSpecs": flags.pass_device_specs,
        "deviceListStrategy": None if strategies is None else list(strategies),
        "deviceIDStrategy": flags.device_id_strategy,
        "cdiAnnotationPrefix": flags.cdi_annotation_prefix,
        "nvidiaCTKPath": flags.nvidia_ctk_path,
        "containerDriverRoot": flags.container_driver_root,
        **_without_null(
            sharedDevicesAllocationPolicy=None if policy == AllocationPolicy.DISTRIBUTED else policy
        ),
    }


def _gfd(flags: GfdFlags) -> dict[str, Any]:
    interval = flags.sleep_interval
    return {
        "oneshot": flags.oneshot,
        "noTimestamp": flags.no_timestamp,
        "sleepInterval": None if interval is None else format_duration(interval),
        "outputFile": flags.output_file,
        "machineTypeFile": flags.machine_type_file,
    }


def _resources(resources: Resources) -> dict[str, Any]:
    gpus = resources.gpus
    return {
        "gpus": None if gpus is None else [_pattern(item) for item in gpus],
        **_without_empty(mig=[_pattern(item) for item in resources.mig]),
    }


def _pattern(item: ResourcePattern) -> dict[str, Any]:
    return {"pattern": item.pattern, "name": item.name}


def _sharing(sharing: Sharing) -> dict[str, Any]:
    mps = sharing.mps
    return {
        "timeSlicing": _replicated(sharing.time_slicing),
        **_without_null(mps=None if mps is None else _replicated(mps)),
    }


def _replicated(section: ReplicatedResources) -> dict[str, Any]:
    return {
        **_without_empty(renameByDefault=section.rename_by_default),
        **_without_null(failRequestsGreaterThanOne=section.fail_requests_greater_than_one),
        **_without_empty(resources=[_resource(item) for item in section.resources]),
    }


def _resource(item: ReplicatedResource) -> dict[str, Any]:
    return {
        "name": item.name,
        **_without_empty(rename=item.rename),
        "devices": selectors.to_json(item.devices),
        "replicas": item.replicas,
    }


def _imex(imex: Imex) -> dict[str, Any]:
    return _without_empty(channelIDs=list(imex.channel_ids), required=imex.required)


def _extensions(extensions: Extensions) -> dict[str, Any]:
    return _without_empty(
        honourNames=extensions.honour_names,
        gpus=_selection(extensions.gpus),
        sharing=[_gpu_sharing(entry) for entry in extensions.sharing],
        health=_health(extensions.health),
        mps=_without_empty(resources=[_mps_limits(e) for e in extensions.mps.resources]),
    )


def _selection(selection: GpuSelection) -> dict[str, Any]:
    return _without_empty(include=selection.include, exclude=selection.exclude)


def _gpu_sharing(entry: GpuSharing) -> dict[str, Any]:
    exclusive = entry.strategy is SharingStrategy.NONE
    return {
        **_without_null(gpus=entry.gpus, mig=entry.mig),
        "strategy": EXCLUSIVE if exclusive else entry.strategy,
        **_without_empty(replicas=entry.replicas, rename=entry.rename),
        **_without_null(failRequestsGreaterThanOne=entry.fail_requests_greater_than_one),
    }


def _health(health: HealthSettings) -> dict[str, Any]:
    if health == HealthSettings():
        return {}
    recovery = health.recovery
    return {
        **_without_empty(xids={str(number): action for number, action in health.xids.items()}),
        "monitorFailure": health.monitor_failure,
        "recovery": {
            "enabled": recovery.enabled,
            "quietPeriod": format_duration(recovery.quiet_period),
        },
    }


def _mps_limits(entry: MpsLimits) -> dict[str, Any]:
    limit, by_gpu = entry.memory_limit, entry.memory_limit_by_gpu
    return {
        "name": entry.name,
        **_without_null(
            activeThreadPercentage=entry.active_thread_percentage,
            memoryLimit=None if limit is None else format_mebibytes(limit),
        ),
        **_without_empty(memoryLimitByGpu={gpu: format_mebibytes(m) for gpu, m in by_gpu.items()}),
    }


def _without_null(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _without_empty(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
