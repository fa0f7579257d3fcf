"""The class ``imex-channel`` (k8s-device-plugin v0.19.3, `internal/cdi/imex.go`)."""

from __future__ import annotations

from gpu_device_plugin.cdi.draft import Draft
from gpu_device_plugin.cdi.model import ContainerEdits, Device, DeviceNode
from gpu_device_plugin.cdi.scan import Scan


def imex_draft(scan: Scan) -> Draft:
    """One device a channel; that its node exists was found out with the options.

    The node's number and mode are left to the runtime, and its path on the host is always
    written, even where it is the same.
    """
    return Draft(
        tuple(
            Device(
                channel.id,
                ContainerEdits(device_nodes=(DeviceNode(channel.path, channel.host_path),)),
            )
            for channel in scan.options.imex_channels
        )
    )
