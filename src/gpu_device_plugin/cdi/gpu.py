"""Edits for a whole GPU.

Sources: nvidia-container-toolkit v1.19.1, `internal/platform-support/dgpu` and `internal/info/drm`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from gpu_device_plugin.cdi.edits import device_nodes, host_path
from gpu_device_plugin.cdi.links import as_links
from gpu_device_plugin.cdi.model import ContainerEdits, DeviceNode, Hook
from gpu_device_plugin.cdi.options import COHERENT_ANNOTATIONS
from gpu_device_plugin.cdi.paths import clean, join, parent
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.hardware.model import Gpu, sysfs_address

CONTROL_NODES = (
    "/dev/nvidia-modeset",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-uvm",
    "/dev/nvidiactl",
)
"""Nodes that every container with a GPU needs."""


def gpu_edits(scan: Scan, gpu: Gpu) -> ContainerEdits:
    """The GPU's own node, its DRM nodes and their links by PCI address."""
    patterns = [gpu_node(gpu), *drm_nodes(scan, gpu)]
    nodes = device_nodes(scan.dev, patterns, scan.notes)
    return ContainerEdits(device_nodes=nodes, hooks=by_path_hook(scan, gpu, nodes))


def gpu_node(gpu: Gpu) -> str:
    """The device node of a GPU."""
    return f"/dev/nvidia{gpu.minor}"


def gpu_annotations(scan: Scan, gpu: Gpu) -> dict[str, str]:
    """Annotations of a whole GPU's device."""
    if not scan.flag(COHERENT_ANNOTATIONS):
        return {}
    if gpu.coherent is None:
        scan.notes.warn(f"GPU {gpu.index}: no annotation, NVML does not tell its addressing mode")
        return {}
    return {"gpu.nvidia.com/coherent": "true" if gpu.coherent else "false"}


def drm_nodes(scan: Scan, gpu: Gpu) -> list[str]:
    """Nodes of the direct rendering manager that sysfs has for the GPU; some may not exist."""
    address = sysfs_address(gpu.pci_bus_id)
    if not address:
        return []
    names = scan.host.listdir(f"/sys/bus/pci/devices/{address}/drm")
    return [f"/dev/dri/{name}" for name in names]


def by_path_hook(scan: Scan, gpu: Gpu, nodes: Iterable[DeviceNode]) -> tuple[Hook, ...]:
    """Makes the host's links in ``/dev/dri/by-path`` that lead to these nodes.

    The link's path is that of the plugin's dev root, which is right in the container only if
    that is ``/``; the original writes it so, and runtimes do not rewrite arguments of hooks.
    """
    address = sysfs_address(gpu.pci_bus_id)
    paths = [f"/dev/dri/by-path/pci-{address}-{kind}" for kind in ("card", "render")]
    pairs = _by_path_links(scan, paths, {host_path(node) for node in nodes}) if address else ()
    return scan.hooks.create_symlinks(as_links(pairs, scan.notes))


def _by_path_links(
    scan: Scan, paths: Iterable[str], nodes: Container[str]
) -> Iterator[tuple[str, str]]:
    for path in paths:
        target = scan.dev.readlink(path)
        where = scan.dev.outer(path)
        if target is None:
            scan.notes.warn(f"{where}: no such link")
            continue
        node = clean(target) if target.startswith("/") else join(parent(where), target)
        if node in nodes:
            yield target, where
