"""The class ``gpu`` on Tegra: devices and files that CSV files name.

Sources: nvidia-container-toolkit v1.19.1, `pkg/nvcdi/lib-csv.go` and
`internal/platform-support/tegra`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpu_device_plugin.cdi.draft import NOTHING_OFFERED, VOID, Draft, Dropped
from gpu_device_plugin.cdi.edits import device_nodes, find, mounts, with_gids
from gpu_device_plugin.cdi.gpu import CONTROL_NODES, gpu_edits
from gpu_device_plugin.cdi.links import as_links, ldcache_folders, library_links
from gpu_device_plugin.cdi.locate import (
    is_directory_by_plain_links,
    is_file_by_plain_links,
    link_chain,
    resolved,
    search,
)
from gpu_device_plugin.cdi.model import ContainerEdits, Device, Hook, Mount, merge
from gpu_device_plugin.cdi.options import PURE_CSV, Naming
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.cdi.tegra_csv import Entry, EntryType, paths_of, read_entries
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, sysfs_address

_RELEASE_FILE = "/etc/nv_tegra_release"
_ORIN = "Orin (nvgpu)"
_ORIN_COMPAT = "/usr/local/cuda/compat_orin"
_INTEGRATED_NAMES = ("(nvgpu)", "NVIDIA Thor")
_INTEGRATED_ADDRESS = re.compile(r"0000:01:00\.\d")
_GPU_NODE = re.compile(r"/dev/nvidia[0-9]+")
_INTEGRATED_NODE = "/dev/nvidia2"
_DISCRETE_NODE = "/dev/nvidia1"


def tegra_draft(scan: Scan) -> Draft | Dropped:
    """One device for the whole machine, or two where a discrete GPU is beside the integrated one.

    Raises:
        ConfigError: devices are to be named by UUID, and there is none.
    """
    pair = _gpu_pair(scan)
    if scan.leaves_out_all or (pair is None and scan.leaves_out(0)):
        return NOTHING_OFFERED
    entries = read_entries(scan)
    release = _release_mount(scan)
    common = with_gids(scan, _common_edits(scan, entries, release))
    devices = _two_devices(scan, entries, *pair) if pair else [_one_device(scan, entries, release)]
    kept = tuple(device for device in devices if device.edits != ContainerEdits())
    for device in devices:
        if device not in kept:
            scan.notes.problem(f"device {device.name!r} is left out: none of its nodes is there")
    if not kept:
        return Dropped("the CSV files name no device or file that is there")
    return Draft(kept, common)


def _one_device(scan: Scan, entries: list[Entry], release: tuple[Mount, ...]) -> Device:
    if scan.options.naming is not Naming.INDEX:
        raise ConfigError(
            "the integrated GPU has no UUID by which a CDI device could be named",
            "--device-id-strategy=index names it by number",
        )
    nodes = device_nodes(scan.dev, paths_of(entries, EntryType.DEVICE), scan.notes)
    return Device("0", with_gids(scan, ContainerEdits(device_nodes=nodes, mounts=release)))


def _two_devices(scan: Scan, entries: list[Entry], integrated: Gpu, discrete: Gpu) -> list[Device]:
    listed = paths_of(entries, EntryType.DEVICE)
    own = [*(path for path in listed if path != _DISCRETE_NODE), _INTEGRATED_NODE]
    others = [p for p in listed if p not in CONTROL_NODES and not _GPU_NODE.fullmatch(p)]
    discrete_edits = merge(
        gpu_edits(scan, discrete),
        ContainerEdits(device_nodes=device_nodes(scan.dev, CONTROL_NODES, scan.notes)),
        ContainerEdits(device_nodes=device_nodes(scan.dev, others, scan.notes)),
    )
    integrated_edits = ContainerEdits(device_nodes=device_nodes(scan.dev, own, scan.notes))
    return [
        Device(_name(scan, gpu), with_gids(scan, edits))
        for gpu, edits in ((integrated, integrated_edits), (discrete, discrete_edits))
        if not scan.leaves_out(gpu.index)
    ]


def _name(scan: Scan, gpu: Gpu) -> str:
    return str(gpu.index) if scan.options.naming is Naming.INDEX else gpu.uuid


def _gpu_pair(scan: Scan) -> tuple[Gpu, Gpu] | None:
    """The integrated and the discrete GPU, if NVML tells of exactly these, in this order."""
    gpus, unreadable = scan.inventory.gpus, scan.inventory.unreadable
    if scan.flag(PURE_CSV) or not scan.inventory.driver_version or len(gpus) + len(unreadable) < 2:
        return None
    kinds = [(gpu.index, _is_integrated(gpu)) for gpu in gpus]
    if kinds == [(0, True), (1, False)] and not unreadable:
        return gpus[0], gpus[1]
    names = ", ".join(gpu.name for gpu in gpus)
    scan.notes.warn(f"not an integrated GPU followed by a discrete one, taken as one: {names}")
    return None


def _is_integrated(gpu: Gpu) -> bool:
    if not gpu.pci_bus_id:
        return any(part in gpu.name for part in _INTEGRATED_NAMES)
    return _INTEGRATED_ADDRESS.fullmatch(sysfs_address(gpu.pci_bus_id)) is not None


def _common_edits(scan: Scan, entries: list[Entry], release: tuple[Mount, ...]) -> ContainerEdits:
    root, notes = scan.driver, scan.notes
    # An entry that leads through an absolute link of a mounted root is left out: the original
    # looks for its target in its own file system, and cannot make the link where it belongs.
    files = search(root, ("/",), is_file_by_plain_links)
    folders = search(root, ("/",), is_directory_by_plain_links)
    directories = find(root, folders, paths_of(entries, EntryType.DIRECTORY), notes)
    libraries = mounts(
        root, find(root, resolved(root, files), paths_of(entries, EntryType.LIBRARY), notes)
    )
    symlinks = paths_of(entries, EntryType.SYMLINK)
    targets = find(root, resolved(root, files), symlinks, notes)
    mounted = (*mounts(root, directories), *libraries, *mounts(root, targets), *release)
    return ContainerEdits(
        env=VOID.env,
        mounts=mounted,
        hooks=(
            *scan.hooks.create_symlinks(library_links(root, libraries, notes)),
            *scan.hooks.create_symlinks(_entry_links(scan, find(root, files, symlinks, notes))),
            *_cuda_compat(scan),
            *scan.hooks.update_ldcache(ldcache_folders(mounted)),
        ),
    )


def _entry_links(scan: Scan, paths: Iterable[str]) -> list[str]:
    """The links that entries are or lead through.

    Their paths are those of the plugin's driver root, as the original writes them.
    """
    steps = [step for path in paths for step in link_chain(scan.driver, path)]
    targets = ((scan.driver.readlink(step), scan.driver.outer(step)) for step in steps)
    return as_links(((target, path) for target, path in targets if target), scan.notes)


def _cuda_compat(scan: Scan) -> tuple[Hook, ...]:
    """Only NVML's word on CUDA counts, which the original asks for at this point."""
    version = scan.inventory.cuda_driver_version
    if not scan.inventory.driver_version or not version:
        scan.notes.warn("CUDA's version is unknown: no hook for CUDA's compatibility libraries")
        return ()
    orin = any(_ORIN in gpu.name for gpu in scan.inventory.gpus)
    return scan.hooks.enable_cuda_compat(
        cuda_version=f"{version // 1000}.{version % 1000 // 10}",
        container_root=_ORIN_COMPAT if orin else "",
    )


def _release_mount(scan: Scan) -> tuple[Mount, ...]:
    """Tegra's release file: of the plugin's own root, even if the driver's is another."""
    paths = find(scan.host, search(scan.host, ("/",)), (_RELEASE_FILE,), scan.notes)
    return mounts(scan.host, paths)
