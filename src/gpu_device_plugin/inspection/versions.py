"""The CDI version that the content of a file needs, and what it is that needs it."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from gpu_device_plugin.cdi.version import minimum_version
from gpu_device_plugin.inspection.parts import Part

_REASONS = {
    "0.4.0": "the type of a mount",
    "0.5.0": "a device name that begins with a digit, or a hostPath of a device node,",
    "0.6.0": "an annotation, or a dot in the class,",
    "0.7.0": "additionalGids or intelRdt",
    "1.1.0": "a network device or a newer field of intelRdt",
}


def needed_version(spec: Part) -> tuple[str, str]:
    """The lowest version whose readers understand the content, and why."""
    version = minimum_version(_outline(spec))
    return version, _REASONS.get(version, "the content")


def _outline(spec: Part) -> Spec:
    """What of a specification decides its version."""
    devices = (
        Device(
            device.text("name") or "",
            _edits(device.part("containerEdits")),
            device.mapping("annotations"),
        )
        for device in spec.parts("devices")
    )
    return Spec(
        version="",
        kind=spec.text("kind") or "",
        devices=tuple(devices),
        edits=_edits(spec.part("containerEdits")),
        annotations=spec.mapping("annotations"),
    )


def _edits(edits: Part | None) -> ContainerEdits:
    if edits is None:
        return ContainerEdits()
    return ContainerEdits(
        device_nodes=tuple(
            DeviceNode("", host_path=node.text("hostPath") or "")
            for node in edits.parts("deviceNodes")
        ),
        net_devices=tuple(NetDevice("", "") for _ in edits.parts("netDevices")),
        mounts=tuple(
            Mount("", "", type=mount.text("type") or "") for mount in edits.parts("mounts")
        ),
        intel_rdt=_rdt(edits.part("intelRdt")),
        additional_gids=tuple(_gids(edits)),
    )


def _gids(edits: Part) -> Iterator[int]:
    node = edits.fields.get("additionalGids")
    if node is not None and isinstance(node.value, list):
        yield from (item.value for item in node.value if type(item.value) is int)


def _rdt(rdt: Part | None) -> IntelRdt | None:
    if rdt is None:
        return None
    monitoring = rdt.fields.get("enableMonitoring")
    return IntelRdt(
        schemata=tuple(text for text, _ in rdt.texts("schemata")),
        enable_monitoring=monitoring is not None and monitoring.value is True,
    )
