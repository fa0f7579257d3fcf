"""Classes that describe other drivers of the machine (nvidia-container-toolkit v1.19.1, `gated.go`).

Each has one device, ``all``, and is dropped if none of its device nodes is there.
"""

from __future__ import annotations

from gpu_device_plugin.cdi.draft import VOID, Draft, Dropped
from gpu_device_plugin.cdi.edits import device_nodes, find, mounts, with_gids
from gpu_device_plugin.cdi.locate import is_directory, search
from gpu_device_plugin.cdi.model import ContainerEdits, Device, Mount
from gpu_device_plugin.cdi.names import CdiClass
from gpu_device_plugin.cdi.scan import Scan

DEVICE = "all"
"""Name of the only device of each class."""

MODES = (CdiClass.GDRCOPY, CdiClass.GDS, CdiClass.MOFED)
"""The classes, in the order in which Allocate names them."""

_NODES = {
    CdiClass.GDRCOPY: ("/dev/gdrdrv",),
    CdiClass.GDS: ("/dev/nvidia-fs*",),
    CdiClass.MOFED: ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}
_UDEV = "/run/udev"
_CUFILE = "/etc/cufile.json"


def is_enabled(scan: Scan, cls: CdiClass) -> bool:
    """Whether the operator asked for the class."""
    options = scan.options
    enabled = {
        CdiClass.GDRCOPY: options.gdrcopy,
        CdiClass.GDS: options.gds,
        CdiClass.MOFED: options.mofed,
    }
    return enabled[cls]


def gated_draft(scan: Scan, cls: CdiClass) -> Draft | Dropped:
    """The device ``all`` of the class, with all its nodes."""
    nodes = device_nodes(scan.dev, _NODES[cls], scan.notes)
    if not nodes:
        return Dropped(f"none of {', '.join(_NODES[cls])} is below {scan.roots.dev}")
    files = _gds_files(scan) if cls is CdiClass.GDS else ()
    edits = with_gids(scan, ContainerEdits(device_nodes=nodes, mounts=files))
    return Draft((Device(DEVICE, edits),), VOID)


def _gds_files(scan: Scan) -> tuple[Mount, ...]:
    directories = search(scan.driver, ("/",), is_directory)
    paths = find(scan.driver, directories, (_UDEV,), scan.notes)
    paths += find(scan.driver, search(scan.driver, ("/",)), (_CUFILE,), scan.notes)
    return mounts(scan.driver, paths)
