"""From files that were found to entries of a specification.

Sources: nvidia-container-toolkit v1.19.1, `internal/discover/mounts.go` and
`internal/edits/device.go`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import replace

from gpu_device_plugin.cdi.locate import Locator, char_devices
from gpu_device_plugin.cdi.match import PatternError
from gpu_device_plugin.cdi.model import ContainerEdits, DeviceNode, Mount
from gpu_device_plugin.cdi.notes import Notes
from gpu_device_plugin.cdi.options import NO_ADDITIONAL_GIDS
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.scan import Scan

STANDARD_OPTIONS = ("ro", "nosuid", "nodev", "rbind", "rprivate")
IPC_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
"""Mount options of files, and of sockets, which must be writable."""

_WORLD_READ_WRITE = stat.S_IROTH | stat.S_IWOTH


def find(root: Root, locate: Locator, patterns: Iterable[str], notes: Notes) -> list[str]:
    """What a locator finds for the patterns, in order, each once; misses are warned of."""
    found: dict[str, None] = {}
    for pattern in patterns:
        try:
            paths = locate(pattern)
        except PatternError as error:
            notes.warn(f"{root.outer('/')}: {error}")
            continue
        if not paths:
            notes.warn(f"{pattern}: not found below {root.outer('/')}")
        found.update(dict.fromkeys(paths))
    return list(found)


def mounts(
    root: Root, paths: Iterable[str], options: tuple[str, ...] = STANDARD_OPTIONS
) -> tuple[Mount, ...]:
    """Mounts of files and directories below a root at the same places in the container."""
    return tuple(Mount(root.source(path), path, options) for path in paths)


def device_nodes(root: Root, patterns: Iterable[str], notes: Notes) -> tuple[DeviceNode, ...]:
    """The character devices below a dev root that match, in order, each once."""
    paths = find(root, char_devices(root), patterns, notes)
    return tuple(device_node(root, path) for path in paths)


def device_node(root: Root, path: str) -> DeviceNode:
    """The entry of one device node; number, mode and group are those of the node found."""
    source = root.source(path)
    node = DeviceNode(path, host_path="" if source == path else source)
    info = root.lstat(path)
    if info is None or not _is_node(info.st_mode):
        return node
    return replace(
        node,
        major=os.major(info.st_rdev),
        minor=os.minor(info.st_rdev),
        file_mode=stat.S_IMODE(info.st_mode) or None,
        permissions="rwm",
        gid=info.st_gid or None,
    )


def with_gids(scan: Scan, edits: ContainerEdits) -> ContainerEdits:
    """Adds the groups that a process without privileges needs to open the device nodes."""
    if scan.flag(NO_ADDITIONAL_GIDS):
        return edits
    gids = {
        node.gid
        for node in edits.device_nodes
        if node.gid and node.file_mode and node.file_mode & _WORLD_READ_WRITE != _WORLD_READ_WRITE
    }
    return replace(edits, additional_gids=tuple(sorted(gids)))


def host_path(node: DeviceNode) -> str:
    """Where the node is, as the plugin sees it."""
    return node.host_path or node.path


def _is_node(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode)
