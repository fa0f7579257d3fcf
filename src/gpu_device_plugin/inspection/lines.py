"""Container edits as lines of text, so that equal edits have equal lines.

The order of environment entries and hooks has a meaning and is kept; device nodes, mounts and
groups are sorted, since runtimes do not care.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu_device_plugin.cdi.hooks import KNOWN
from gpu_device_plugin.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    Mount,
    NetDevice,
    Spec,
)

_PLAIN = re.compile(r"[^\s\"',()\[\]]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line about an edit."""

    text: str
    owner: str = ""
    """The line below which this one stands; empty if it stands for itself."""


Lines = tuple[tuple[Line, ...], ...]
"""Lines by what they are about: all of one kind are compared with one another."""


def head_lines(spec: Spec) -> Lines:
    """What stands at the top of a specification."""
    head = (Line(f"cdiVersion {spec.version}"), Line(f"kind {shown(spec.kind)}"))
    return head, _annotations(spec.annotations)


def device_lines(device: Device) -> Lines:
    """What one device adds to a container, less its name."""
    return _annotations(device.annotations), *edit_lines(device.edits)


def edit_lines(edits: ContainerEdits) -> Lines:
    """What edits add to a container."""
    rdt = edits.intel_rdt
    return (
        tuple(Line(f"env {shown(entry)}") for entry in edits.env),
        _sorted(map(_node, edits.device_nodes)),
        _sorted(map(_net_device, edits.net_devices)),
        tuple(line for hook in edits.hooks for line in _hook(hook)),
        _sorted(map(_mount, edits.mounts)),
        () if rdt is None else (Line(f"intelRdt {json.dumps(rdt.to_dict())}"),),
        tuple(Line(f"group {gid}") for gid in sorted(edits.additional_gids)),
    )


def shown(text: str) -> str:
    """The text, in quotes if it could be misread."""
    return text if text.isprintable() and _PLAIN.fullmatch(text) else json.dumps(text)


def _sorted(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines, key=lambda line: line.text))


def _annotations(annotations: Mapping[str, str]) -> tuple[Line, ...]:
    pairs = sorted(annotations.items())
    return tuple(Line(f"annotation {shown(key)}={shown(value)}") for key, value in pairs)


def _net_device(net: NetDevice) -> Line:
    return Line(f"netDevice {shown(net.host_interface_name)} as {shown(net.name)}")


def _node(node: DeviceNode) -> Line:
    words = ["node", shown(node.path)]
    if node.host_path:
        words.append(f"from {shown(node.host_path)}")
    if node.type:
        words.append(f"type {shown(node.type)}")
    if node.major or node.minor:
        words.append(f"{node.major}:{node.minor}")
    if node.file_mode is not None:
        words.append(f"mode {node.file_mode:04o}")
    if node.permissions:
        words.append(f"access {shown(node.permissions)}")
    words += [f"{k} {v}" for k, v in (("uid", node.uid), ("gid", node.gid)) if v is not None]
    return Line(" ".join(words))


def _mount(mount: Mount) -> Line:
    text = f"mount {shown(mount.container_path)} from {shown(mount.host_path)}"
    if mount.type:
        text += f" type {shown(mount.type)}"
    return Line(f"{text} [{','.join(map(shown, mount.options))}]")


def _hook(hook: Hook) -> Iterator[Line]:
    """A line that names the hook, and one for each option with its value."""
    args = list(hook.args)
    at = next((i + 1 for i, arg in enumerate(args) if arg in KNOWN), min(1, len(args)))
    head = " ".join(["hook", shown(hook.hook_name), shown(hook.path), *map(shown, args[:at])])
    yield Line(head)
    rest = args[at:]
    while rest:
        take = 2 if rest[0].startswith("--") and "=" not in rest[0] and len(rest) > 1 else 1
        yield Line("  " + " ".join(map(shown, rest[:take])), head)
        del rest[:take]
    for entry in hook.env:
        yield Line(f"  env {shown(entry)}", head)
    if hook.timeout is not None:
        yield Line(f"  timeout {hook.timeout}", head)
