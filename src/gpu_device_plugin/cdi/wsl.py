"""The class ``gpu`` on WSL (nvidia-container-toolkit v1.19.1, `pkg/nvcdi/driver-wsl.go`)."""

from __future__ import annotations

from gpu_device_plugin.cdi.draft import NOTHING_OFFERED, VOID, Draft, Dropped
from gpu_device_plugin.cdi.edits import STANDARD_OPTIONS, device_nodes, find, with_gids
from gpu_device_plugin.cdi.links import as_links, ldcache_folders
from gpu_device_plugin.cdi.locate import search
from gpu_device_plugin.cdi.model import ContainerEdits, Device, Mount
from gpu_device_plugin.cdi.paths import base, below
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.errors import HardwareError

DEVICE = "all"
"""Name of the only device; WSL does not tell GPUs apart."""

_NODE = "/dev/dxg"
_LIBRARIES = "/usr/lib/wsl/lib"
_FILES = (
    "libcuda.so.1.1",
    "libcuda_loader.so",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ml_loader.so",
    "libdxcore.so",
    "libnvdxgdmal.so.1",
    "nvcubins.bin",
    "nvidia-smi",
)
_SMI = "nvidia-smi"
_SMI_LINK = "/usr/bin/nvidia-smi"


def wsl_draft(scan: Scan) -> Draft | Dropped:
    """One device with the paravirtualised GPU and the files of the Windows driver.

    Raises:
        HardwareError: there is no Windows driver.
    """
    if scan.leaves_out_all:
        return NOTHING_OFFERED
    stores = [path for path in scan.system.driver_stores() if path.startswith("/")]
    if not stores:
        raise HardwareError("no driver store of Windows is known")
    if len(stores) > 1:
        scan.notes.warn(f"several driver stores, all are used: {', '.join(stores)}")
    nodes = device_nodes(scan.dev, (_NODE,), scan.notes)
    if not nodes:
        return Dropped(f"{scan.dev.outer(_NODE)} is missing")
    edits = with_gids(scan, ContainerEdits(device_nodes=nodes))
    return Draft((Device(DEVICE, edits),), _common_edits(scan, stores))


def _common_edits(scan: Scan, stores: list[str]) -> ContainerEdits:
    # The stores are where Windows puts them, whatever the driver root.
    locate = search(scan.host, [*stores, _LIBRARIES], count=1)
    paths = find(scan.host, locate, _FILES, scan.notes)
    mounted = tuple(
        Mount(scan.host.source(path), below(path, scan.roots.driver) or path, STANDARD_OPTIONS)
        for path in paths
    )
    links = [(m.container_path, _SMI_LINK) for m in mounted if base(m.container_path) == _SMI]
    return ContainerEdits(
        env=VOID.env,
        mounts=mounted,
        hooks=(
            *scan.hooks.create_symlinks(as_links(links, scan.notes)),
            *scan.hooks.update_ldcache(ldcache_folders(mounted)),
        ),
    )
