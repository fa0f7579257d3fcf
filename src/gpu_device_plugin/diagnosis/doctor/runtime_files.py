"""The configuration of container runtimes, as far as GPUs depend on it.

containerd (docs/cri/config.md, file versions 1 to 3), CRI-O (crio.conf(5)), Docker
(dockerd(8), ``daemon.json``).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpu_device_plugin.cdi.match import PatternError
from gpu_device_plugin.cdi.paths import clean, join, parent
from gpu_device_plugin.diagnosis.doctor.host import Host

CONTAINERD = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/k0s/containerd.toml",
)
"""Of containerd itself, k3s, RKE2, MicroK8s and k0s."""
CRIO = "/etc/crio/crio.conf"
CRIO_PARTS = "/etc/crio/crio.conf.d"
DOCKER = "/etc/docker/daemon.json"
CRI_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
"""How containerd calls the part that serves the kubelet, the newest first."""
NEW_CRI = CRI_PLUGINS[0]
"""Of containerd 2, where CDI is on unless it is switched off."""
MOST_IMPORTS = 64

Table = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """What a runtime is told."""

    kind: str
    """``containerd``, ``CRI-O`` or ``Docker``."""
    files: tuple[str, ...]
    """What it was read from, as this process sees it."""
    problem: str = ""
    """Why it cannot be understood; empty if it can."""
    handlers: tuple[str, ...] = ()
    """Names of the runtimes that are configured."""
    nvidia: tuple[str, ...] = ()
    """Those of them that are NVIDIA's, by name or by binary."""
    default: str = ""
    cdi: bool | None = None
    """Whether CDI is on; None if that is not known."""
    cdi_directories: tuple[str, ...] = ()
    """Where it looks for CDI specifications; empty for the usual places."""
    systemd_cgroups: bool | None = None
    """Whether systemd manages the cgroups; None if that is not known."""


def find_runtimes(host: Host) -> Iterator[RuntimeConfig]:
    """The configuration of every runtime of which there is a file."""
    for path in CONTAINERD:
        if host.exists(path):
            yield _containerd(host, path)
    parts = [join(CRIO_PARTS, n) for n in host.files.listdir(CRIO_PARTS) if n[:1] != "."]
    crio = [path for path in (CRIO, *parts) if host.exists(path)]
    if crio:
        yield _crio(host, crio)
    if host.exists(DOCKER):
        yield _docker(host, DOCKER)


def _containerd(host: Host, path: str) -> RuntimeConfig:
    files = [path]
    config = RuntimeConfig("containerd", (host.files.outer(path),))
    merged: Table = {}
    try:
        while files and len(config.files) < MOST_IMPORTS:
            table = _toml(host, files.pop(0))
            imports = [p for p in _texts(table.get("imports")) for p in _matches(host, path, p)]
            files += imports
            outer = tuple(host.files.outer(p) for p in imports)
            config = replace(config, files=config.files + outer)
            _merge(merged, table)
    except ValueError as error:
        return replace(config, problem=str(error))
    version, cri = _cri(merged)
    handlers = _table(cri, "containerd", "runtimes")
    nvidia = tuple(name for name, item in handlers.items() if _is_nvidia(name, item))
    default = str(_table(cri, "containerd").get("default_runtime_name") or "runc")
    chosen = _table(handlers, default, "options")
    cdi = cri.get("enable_cdi", version == NEW_CRI)
    return replace(
        config,
        handlers=tuple(handlers),
        nvidia=nvidia,
        default=default,
        cdi=bool(cdi),
        cdi_directories=tuple(_texts(cri.get("cdi_spec_dirs"))),
        systemd_cgroups=bool(chosen.get("SystemdCgroup", False)),
    )


def _cri(config: Table) -> tuple[str, Table]:
    """The part of containerd that serves the kubelet."""
    plugins = _table(config, "plugins")
    for name in CRI_PLUGINS:
        if isinstance(plugins.get(name), dict):
            return name, plugins[name]
    return (NEW_CRI if config.get("version") == 3 else CRI_PLUGINS[1]), {}


def _matches(host: Host, origin: str, pattern: str) -> list[str]:
    full = pattern if pattern.startswith("/") else join(parent(origin), pattern)
    try:
        return host.files.glob(clean(full))
    except PatternError:
        return []


def _crio(host: Host, paths: list[str]) -> RuntimeConfig:
    config = RuntimeConfig("CRI-O", tuple(host.files.outer(path) for path in paths))
    merged: Table = {}
    try:
        for path in paths:
            _merge(merged, _toml(host, path))
    except ValueError as error:
        return replace(config, problem=str(error))
    runtime = _table(merged, "crio", "runtime")
    handlers = _table(runtime, "runtimes")
    return replace(
        config,
        handlers=tuple(handlers),
        nvidia=tuple(name for name, item in handlers.items() if _is_nvidia(name, item)),
        default=str(runtime.get("default_runtime") or ""),
        # It has been on in every version that is still maintained.
        cdi=True,
        cdi_directories=tuple(_texts(runtime.get("cdi_spec_dirs"))),
        systemd_cgroups=runtime.get("cgroup_manager", "systemd") == "systemd",
    )


def _docker(host: Host, path: str) -> RuntimeConfig:
    config = RuntimeConfig("Docker", (host.files.outer(path),))
    try:
        table = json.loads(_text(host, path))
    except ValueError as error:
        return replace(config, problem=f"{host.files.outer(path)}: {error}")
    table = table if isinstance(table, dict) else {}
    handlers = _table(table, "runtimes")
    cgroups = [t for t in _texts(table.get("exec-opts")) if t.startswith("native.cgroupdriver=")]
    return replace(
        config,
        handlers=tuple(handlers),
        nvidia=tuple(name for name, item in handlers.items() if _is_nvidia(name, item)),
        default=str(table.get("default-runtime") or "runc"),
        cdi=bool(_table(table, "features").get("cdi", False)),
        cdi_directories=tuple(_texts(table.get("cdi-spec-dirs"))),
        systemd_cgroups=cgroups[-1].endswith("systemd") if cgroups else None,
    )


def read_toml(host: Host, path: str) -> Table:
    """A TOML file; empty if there is none.

    Raises:
        ValueError: it is there and cannot be understood.
    """
    return _toml(host, path) if host.exists(path) else {}


def _toml(host: Host, path: str) -> Table:
    try:
        return tomllib.loads(_text(host, path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{host.files.outer(path)}: {error}") from None


def _text(host: Host, path: str) -> str:
    text = host.text(path)
    if text is None:
        raise ValueError(f"{host.files.outer(path)}: cannot be read")
    return text


def _is_nvidia(name: str, item: Any) -> bool:
    options = item.get("options") if isinstance(item, dict) else None
    binary = (options or {}).get("BinaryName", "") if isinstance(options, dict) else ""
    paths = [
        binary,
        *((item.get("runtime_path"), item.get("path")) if isinstance(item, dict) else ()),
    ]
    return "nvidia" in name or any("nvidia-container-runtime" in str(path) for path in paths)


def _table(table: Table, *keys: str) -> Table:
    """A table in a table; empty if there is none."""
    for key in keys:
        found = table.get(key)
        table = found if isinstance(found, dict) else {}
    return table


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _merge(into: Table, other: Table) -> None:
    """Later files replace single values, and add to tables."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
