"""The section ``sharing``: devices of whole resources offered several times over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_device_plugin.config.model import ReplicatedResource
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.resources.model import Device


def replicate(
    devices: Mapping[str, Mapping[str, Device]],
    entries: Sequence[ReplicatedResource],
    warnings: list[str],
) -> Iterator[tuple[str, Device]]:
    """Replaces the devices that the entries select by replicas.

    Entries of resources that the node lacks do nothing. Two entries for one device give as many
    replicas as the larger number (k8s-device-plugin v0.19.3, updateDeviceMapWithReplicas).

    DEVIATION: an entry that selects devices which are not there is a warning, so that a node that
    has lost a GPU goes on with the others; v0.19.3 would end, if it did not ignore selections.

    Args:
        devices: by the names of their resources, then by id.
        entries: of the section in effect.
        warnings: takes what is wrong but stops nothing.

    Returns:
        Every device once, with the name of the resource that it goes to.

    Raises:
        ConfigError: a device would go to two resources.
    """
    for name, found in devices.items():
        replicas = _replicas(found, [entry for entry in entries if entry.name == name], warnings)
        for device_id, device in found.items():
            if device_id in replicas:
                entry = replicas[device_id]
                yield entry.shared_name, replace(device, replicas=entry.replicas)
            else:
                yield name, device


def _replicas(
    found: Mapping[str, Device], entries: Sequence[ReplicatedResource], warnings: list[str]
) -> dict[str, ReplicatedResource]:
    """The entry that decides over each device that is selected."""
    deciding: dict[str, ReplicatedResource] = {}
    for entry in entries:
        for device in _select(entry, found, warnings):
            before = deciding.setdefault(device.id, entry)
            if before.shared_name != entry.shared_name:
                raise ConfigError(
                    f"sharing of {entry.name}: device {device.index} is selected twice, "
                    f"as {before.shared_name} and as {entry.shared_name}",
                    "a device can be offered under one name only; see devices and rename",
                )
            if entry.replicas > before.replicas:
                deciding[device.id] = entry
    return deciding


def _select(
    entry: ReplicatedResource, found: Mapping[str, Device], warnings: list[str]
) -> Sequence[Device]:
    ordered = sorted(found.values(), key=lambda device: device.sort_key)
    selector = entry.devices
    if selector.all:
        return ordered
    if selector.count > len(ordered):
        warnings.append(
            f"sharing of {entry.name}: {selector.count} devices are asked for, "
            f"the node has {len(ordered)}"
        )
    if selector.count:
        return ordered[: selector.count]
    if not selector.references:
        warnings.append(f"sharing of {entry.name}: the list of devices is empty")
    by_reference = {word: device for device in ordered for word in (device.id, device.index)}
    for reference in selector.references:
        if reference not in by_reference:
            there = ", ".join(f"{device.index} ({device.id})" for device in ordered)
            warnings.append(f"sharing of {entry.name}: no device {reference} (there are {there})")
    return [by_reference[word] for word in selector.references if word in by_reference]
