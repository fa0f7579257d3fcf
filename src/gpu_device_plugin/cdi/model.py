"""A CDI specification as immutable data, and its JSON and YAML text.

Fields, their order and what is left out when empty follow the CDI specification 1.1.0 and its
library v1.1.0; the JSON text follows Go's `encoding/json`, which that library uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_GO_ESCAPES = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
        # Runtimes read JSON as YAML, which has no such characters.
        **{chr(code): f"\\u{code:04x}" for code in (0x7F, *range(0x80, 0xA0))},
    }
)

_NO_TEXT_IN_GO = re.compile(
    r"[yYnN]|[-+]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][-+]?\d+)?|0[xob][0-9a-fA-F_]+|[-+]?\.(inf|Inf|INF)",
    re.ASCII,
)
"""Plain scalars that go-yaml takes for booleans and numbers and PyYAML for text."""


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node that is made in the container."""

    path: str
    """In the container."""
    host_path: str = ""
    """On the host; empty if it is the same."""
    type: str = ""
    """``c``, ``u``, ``b`` or ``p``; empty if the runtime is to look at the host's node."""
    major: int = 0
    minor: int = 0
    """Zero is not written, as in the original's JSON."""
    file_mode: int | None = None
    """Permission bits, written as a decimal number."""
    permissions: str = ""
    """Cgroup permissions: letters of ``rwm``."""
    uid: int | None = None
    gid: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return _set_fields(
            {
                "path": self.path,
                "hostPath": self.host_path or None,
                "type": self.type or None,
                "major": self.major or None,
                "minor": self.minor or None,
                "fileMode": self.file_mode,
                "permissions": self.permissions or None,
                "uid": self.uid,
                "gid": self.gid,
            }
        )


@dataclass(frozen=True, slots=True)
class NetDevice:
    """A network interface that is moved into the container (since 1.1.0)."""

    host_interface_name: str
    name: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {"hostInterfaceName": self.host_interface_name, "name": self.name}


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return _set_fields(
            {
                "hostPath": self.host_path,
                "containerPath": self.container_path,
                "options": list(self.options) or None,
                "type": self.type or None,
            }
        )


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that the low-level runtime runs at one point of the container's life."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None
    """Seconds; None is no limit."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return _set_fields(
            {
                "hookName": self.hook_name,
                "path": self.path,
                "args": list(self.args) or None,
                "env": list(self.env) or None,
                "timeout": self.timeout,
            }
        )


@dataclass(frozen=True, slots=True)
class IntelRdt:
    """Settings of Intel's resource director technology (since 0.7.0)."""

    clos_id: str = ""
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] = ()
    """Since 1.1.0."""
    enable_monitoring: bool = False
    """Since 1.1.0."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return _set_fields(
            {
                "closID": self.clos_id or None,
                "l3CacheSchema": self.l3_cache_schema or None,
                "memBwSchema": self.mem_bw_schema or None,
                "schemata": list(self.schemata) or None,
                "enableMonitoring": self.enable_monitoring or None,
            }
        )


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """What is added to a container."""

    env: tuple[str, ...] = ()
    """``NAME=value`` each."""
    device_nodes: tuple[DeviceNode, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intel_rdt: IntelRdt | None = None
    additional_gids: tuple[int, ...] = ()
    """Groups that the container's process joins (since 0.7.0)."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object; ``{}`` if there is nothing to add."""
        return _set_fields(
            {
                "env": list(self.env) or None,
                "deviceNodes": _dicts(self.device_nodes) or None,
                "netDevices": _dicts(self.net_devices) or None,
                "hooks": _dicts(self.hooks) or None,
                "mounts": _dicts(self.mounts) or None,
                "intelRdt": None if self.intel_rdt is None else self.intel_rdt.to_dict(),
                "additionalGids": list(self.additional_gids) or None,
            }
        )


@dataclass(frozen=True, slots=True)
class Device:
    """A device that can be asked for by name."""

    name: str
    edits: ContainerEdits
    annotations: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return _set_fields(
            {
                "name": self.name,
                "annotations": dict(sorted(self.annotations.items())) or None,
                "containerEdits": self.edits.to_dict(),
            }
        )


@dataclass(frozen=True, slots=True)
class Spec:
    """One CDI specification: the devices of one kind."""

    version: str
    kind: str
    """``VENDOR/CLASS``."""
    devices: tuple[Device, ...]
    edits: ContainerEdits = field(default_factory=ContainerEdits)
    """What every container gets that asks for any of the devices."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The qualified names of the devices, ``VENDOR/CLASS=NAME``."""
        return tuple(f"{self.kind}={device.name}" for device in self.devices)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return _set_fields(
            {
                "cdiVersion": self.version,
                "kind": self.kind,
                "annotations": dict(sorted(self.annotations.items())) or None,
                "devices": _dicts(self.devices),
                "containerEdits": self.edits.to_dict(),
            }
        )

    def to_json(self) -> str:
        """The text of a ``.json`` file: one line without a newline at its end."""
        text = json.dumps(self.to_dict(), separators=(",", ":"), ensure_ascii=False)
        return text.translate(_GO_ESCAPES)

    def to_yaml(self) -> str:
        """The text of a ``.yaml`` file."""
        import yaml  # noqa: PLC0415 - 1 MB that the usual JSON does not need

        class Dumper(yaml.SafeDumper):
            """Quotes what container runtimes (go-yaml) would read as something else than text."""

        def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
            style = "'" if _NO_TEXT_IN_GO.fullmatch(value) else None
            return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

        Dumper.add_representer(str, text)
        body: str = yaml.dump(self.to_dict(), Dumper=Dumper, sort_keys=False)
        return "---\n" + body


def merge(*parts: ContainerEdits) -> ContainerEdits:
    """All parts in one, each kind in the order of the parts; nothing is dropped.

    IntelRdt is taken from the last part that has it.
    """
    rdts = [p.intel_rdt for p in parts if p.intel_rdt is not None]
    return ContainerEdits(
        env=tuple(e for p in parts for e in p.env),
        device_nodes=tuple(n for p in parts for n in p.device_nodes),
        net_devices=tuple(n for p in parts for n in p.net_devices),
        hooks=tuple(h for p in parts for h in p.hooks),
        mounts=tuple(m for p in parts for m in p.mounts),
        intel_rdt=rdts[-1] if rdts else None,
        additional_gids=tuple(g for p in parts for g in p.additional_gids),
    )


def _dicts(
    items: Iterable[DeviceNode | NetDevice | Hook | Mount | Device],
) -> list[dict[str, Any]]:
    return [item.to_dict() for item in items]


def _set_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
