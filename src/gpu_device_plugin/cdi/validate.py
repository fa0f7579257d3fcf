"""What a runtime would refuse in a CDI specification (CDI library v1.1.0, `pkg/cdi`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_device_plugin.cdi.model import ContainerEdits, DeviceNode, Hook, Spec
from gpu_device_plugin.cdi.names import device_name_fault, kind_fault
from gpu_device_plugin.cdi.version import KNOWN_VERSIONS, is_at_least, minimum_version
from gpu_device_plugin.errors import ConfigError

HOOK_NAMES = frozenset(
    {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
)
_NODE_TYPES = frozenset({"", "b", "c", "u", "p"})


def validate(spec: Spec, source: str = "") -> None:
    """Checks all that the original's library checks before it writes or uses a specification.

    Args:
        spec: the specification.
        source: where it comes from, for the message; its kind if empty.

    Raises:
        ConfigError: with the first fault.
    """
    for fault in faults(spec):
        raise ConfigError(f"CDI specification {source or spec.kind}: {fault}")


def faults(spec: Spec) -> Iterator[str]:
    """Everything that is wrong, one sentence each, in the order of the file."""
    yield from _version_faults(spec)
    yield from filter(None, [kind_fault(spec.kind)])
    if not spec.devices:
        yield "no devices"
    seen: set[str] = set()
    for device in spec.devices:
        yield from filter(None, [device_name_fault(device.name)])
        if device.name in seen:
            yield f"two devices named {device.name!r}"
        seen.add(device.name)
        if device.edits == ContainerEdits():
            yield f"device {device.name!r} adds nothing to a container"
        for fault in _edit_faults(device.edits):
            yield f"device {device.name!r}: {fault}"
    yield from _edit_faults(spec.edits)


def _version_faults(spec: Spec) -> Iterator[str]:
    if spec.version not in KNOWN_VERSIONS:
        yield f"unknown CDI version {spec.version!r}"
        return
    least = minimum_version(spec)
    if not is_at_least(spec.version, least):
        yield f"says version {spec.version} but its content needs {least}"


def _edit_faults(edits: ContainerEdits) -> Iterator[str]:
    yield from _env_faults(edits.env)
    for node in edits.device_nodes:
        yield from _node_faults(node)
    for hook in edits.hooks:
        yield from _hook_faults(hook)
    for mount in edits.mounts:
        if not mount.host_path or not mount.container_path:
            yield f"mount {mount.host_path!r} on {mount.container_path!r} has an empty path"
    for net in edits.net_devices:
        if not net.host_interface_name or not net.name:
            yield "network device without a name"


def _env_faults(env: Iterable[str]) -> Iterator[str]:
    for entry in env:
        if entry.find("=") < 1:
            yield f"environment entry {entry!r} is not NAME=value"


def _node_faults(node: DeviceNode) -> Iterator[str]:
    if not node.path:
        yield "device node with an empty path"
    if node.type not in _NODE_TYPES:
        yield f"device node {node.path}: unknown type {node.type!r}"
    if node.permissions.strip("rwm"):
        yield f"device node {node.path}: permissions {node.permissions!r} are not of 'rwm'"


def _hook_faults(hook: Hook) -> Iterator[str]:
    if hook.hook_name not in HOOK_NAMES:
        yield f"unknown hook name {hook.hook_name!r}"
    if not hook.path:
        yield f"hook {' '.join(hook.args) or hook.hook_name!r} has an empty path"
    yield from _env_faults(hook.env)
