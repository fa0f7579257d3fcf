"""Edits for a MIG device (nvidia-container-toolkit v1.19.1, `pkg/nvcdi/mig-device-nvml.go`)."""

from __future__ import annotations

from gpu_device_plugin.cdi.edits import device_nodes
from gpu_device_plugin.cdi.gpu import by_path_hook, drm_nodes, gpu_node
from gpu_device_plugin.cdi.model import ContainerEdits
from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.hardware.mig_minors import MIG_MINORS_FILE, MigMinors, parse_mig_minors
from gpu_device_plugin.hardware.model import Gpu, MigDevice

_MAX_SIZE = 16 << 20
"""Bytes; the driver's table for 32 GPUs has 120 kilobytes."""


def read_minors(scan: Scan) -> MigMinors:
    """The MIG capabilities that the driver lists.

    Raises:
        HardwareError: the file cannot be read.
    """
    try:
        data = scan.host.read(MIG_MINORS_FILE, _MAX_SIZE)
        return parse_mig_minors(data.decode(errors="replace"))
    except (OSError, ValueError) as error:
        raise HardwareError(
            f"{MIG_MINORS_FILE}: cannot be read: {reason(error)}",
            "it is there when the driver's MIG capabilities are",
        ) from error


def mig_edits(scan: Scan, gpu: Gpu, mig: MigDevice, minors: MigMinors) -> ContainerEdits:
    """The node of the GPU and those of the capabilities; with ``gfx`` also DRM nodes.

    Raises:
        HardwareError: the driver lists no capability for the device.
    """
    found = minors.of(gpu.minor, mig.gpu_instance, mig.compute_instance)
    if found is None:
        instance = f"gpu{gpu.minor}/gi{mig.gpu_instance}/ci{mig.compute_instance}"
        raise HardwareError(f"{MIG_MINORS_FILE}: no line for {instance} or its GPU instance")
    patterns = [gpu_node(gpu), *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in found)]
    renders = "gfx" in mig.profile.attributes
    if renders:
        patterns += drm_nodes(scan, gpu)
    nodes = device_nodes(scan.dev, patterns, scan.notes)
    hooks = by_path_hook(scan, gpu, nodes) if renders else ()
    return ContainerEdits(device_nodes=nodes, hooks=hooks)
