"""The C simulator of NVML: building it, and describing a node to it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpu_device_plugin.hardware.mig_minors import MigMinors
from gpu_device_plugin.hardware.model import Gpu, Inventory, Links, MigDevice
from gpu_device_plugin.hardware.nvml.mig import COMPUTE_INSTANCE_SLICES
from gpu_device_plugin.hardware.simulated.products import MigSlice, load_products

SOURCES = Path(__file__).parent.parent / "nvmlsim"
COMPILER = shutil.which(os.environ.get("CC", "gcc"))


def build(without: Iterable[str] = ()) -> Path:
    """The library, compiled once for each state of its sources.

    Args:
        without: functions that it lacks, as that of an older driver does.
    """
    left_out = " ".join(sorted(without))
    digest = hashlib.sha256(left_out.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    target = Path(tempfile.gettempdir()) / f"nvmlsim-{os.getuid()}-{digest.hexdigest()[:16]}"
    library = target / "libnvidia-ml.so.1"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=tempfile.gettempdir()) as work:
            subprocess.run(
                ["make", "-s", "-C", SOURCES, f"OUT={work}", f"WITHOUT={left_out}"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            target.mkdir(exist_ok=True)
            os.replace(Path(work) / library.name, library)
    return library


def profile_text(inventory: Inventory, links: Links, extra: Iterable[str] = ()) -> str:
    """A node in the simulator's language."""
    lines = [
        f"driver_version {inventory.driver_version}",
        f"nvml_version 12.{inventory.driver_version}",
        f"cuda_version {inventory.cuda_driver_version}",
        *extra,
    ]
    for gpu in inventory.gpus:
        lines += _gpu_lines(gpu, inventory, links)
    return "\n".join(lines) + "\n"


def _gpu_lines(gpu: Gpu, inventory: Inventory, links: Links) -> Iterator[str]:
    major, minor = gpu.compute_capability or (0, 0)
    yield "[gpu]"
    yield f"uuid {gpu.uuid}"
    yield f"name {gpu.name}"
    yield f"brand {gpu.brand}"
    yield f"cc {major}.{minor}"
    yield f"minor {gpu.minor}"
    yield f"bus_id {gpu.pci_bus_id}"
    yield f"pci_device_id {gpu.pci_device_id:#x}"
    yield f"mem_total {gpu.memory_bytes}"
    yield f"mig_capable {int(gpu.mig_capable)}"
    yield f"addressing {2 if gpu.coherent else 0}"
    if gpu.mig_capable:
        yield from _mig_lines(gpu)
    for other in inventory.gpus:
        level = links.ancestors.get((gpu.index, other.index))
        if level is not None:
            yield f"topo {other.index} {level}"
    number = 0
    for other in inventory.gpus:
        for _ in range(links.nvlinks.get((gpu.index, other.index), 0)):
            yield f"nvlink {number} 1 0 {other.pci_bus_id}"
            number += 1


def _mig_lines(gpu: Gpu) -> Iterator[str]:
    slices = load_products()[gpu.name].mig_slices
    yield f"mig_mode {int(gpu.mig_enabled)}"
    yield f"mig_pending {int(gpu.mig_enabled)}"
    yield f"max_mig {max(s.profile.gpu_slices for s in slices)}"
    for s in slices:
        yield (
            f"giprofile {s.number} {100 + s.number} 0 {s.profile.gpu_slices} {s.instances} "
            f"{s.multiprocessors} {s.copy_engines} {s.decoders} {s.encoders} {s.jpeg} {s.ofa} "
            f"{s.memory_mib} {s.name}"
        )
    instances = {mig.gpu_instance: mig for mig in gpu.mig_devices}
    for gi, mig in instances.items():
        s = _slice_of(slices, mig)
        yield f"gi {gi} {s.number} 0 {s.profile.gpu_slices}"
    numbers = {slices: number for number, slices in reversed(COMPUTE_INSTANCE_SLICES.items())}
    for mig in gpu.mig_devices:
        size = mig.profile.compute_slices
        yield f"ci {mig.gpu_instance} {mig.compute_instance} {numbers[size]} 0 {size}"
    for mig in gpu.mig_devices:
        a = mig.attributes
        yield (
            f"mig {mig.slot} {mig.uuid} {mig.gpu_instance} {mig.compute_instance} "
            f"{a.multiprocessors} {a.shared_copy_engines} {a.shared_decoders} "
            f"{a.shared_encoders} {a.shared_jpeg} {a.shared_ofa} {a.gpu_instance_slices} "
            f"{a.compute_instance_slices} {a.memory_mib} {mig.profile}"
        )


def _slice_of(slices: Iterable[MigSlice], mig: MigDevice) -> MigSlice:
    p = mig.profile
    return next(
        s
        for s in slices
        if s.profile.gpu_slices == p.gpu_slices
        and s.profile.memory_gib == p.memory_gib
        and s.profile.attributes == p.attributes
    )


def minors_of(inventory: Inventory) -> MigMinors:
    """The capability nodes that the inventory names."""
    minors: dict[tuple[int, int, int | None], int] = {}
    for gpu, mig in inventory.mig_pairs():
        first, second = mig.capability_minors or (0, 0)
        minors[gpu.minor, mig.gpu_instance, None] = first
        minors[gpu.minor, mig.gpu_instance, mig.compute_instance] = second
    return MigMinors(minors)
