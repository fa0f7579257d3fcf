"""Shared resources: devices offered several times over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_device_plugin.config.model import ReplicatedResource
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.resources.model import Device


def replicate(
    devices: Mapping[str, Mapping[str, Device]], entries: Sequence[ReplicatedResource]
) -> dict[str, dict[str, Device]]:
    """Replaces the devices that the entries select by replicas.

    Entries of resources that the node lacks do nothing. Two entries for one device give as many
    replicas as the larger number (k8s-device-plugin v0.19.3, updateDeviceMapWithReplicas).

    Raises:
        ConfigError: an entry selects devices that are not there.
    """
    named = {entry.name for entry in entries}
    shared = {name: dict(found) for name, found in devices.items() if name not in named}
    for entry in entries:
        found = devices.get(entry.name)
        if found is None:
            continue
        selected = _select(entry, found)
        for device in found.values():
            if device.id not in selected:
                shared.setdefault(entry.name, {}).setdefault(device.id, device)
        target = shared.setdefault(entry.shared_name, {})
        for device_id in selected:
            before = target.get(device_id)
            count = max(entry.replicas, before.replicas if before is not None else 0)
            target[device_id] = replace(found[device_id], replicas=count)
    return shared


def _select(entry: ReplicatedResource, found: Mapping[str, Device]) -> list[str]:
    ordered = sorted(found.values(), key=lambda device: device.sort_key)
    if entry.devices.all:
        return [device.id for device in ordered]
    if entry.devices.count:
        if entry.devices.count > len(ordered):
            raise ConfigError(
                f"sharing of {entry.name}: {entry.devices.count} devices are asked for, "
                f"the node has {len(ordered)}"
            )
        return [device.id for device in ordered[: entry.devices.count]]
    return [_resolve(entry, reference, ordered).id for reference in entry.devices.references]


def _resolve(entry: ReplicatedResource, reference: str, ordered: Sequence[Device]) -> Device:
    for device in ordered:
        if reference in {device.id, device.index}:
            return device
    raise ConfigError(
        f"sharing of {entry.name}: no device {reference!r}",
        "there are " + ", ".join(f"{device.index} ({device.id})" for device in ordered),
    )
