"""Labels of the node as a whole: time, machine, versions, modes, fabric, vGPU."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.hardware.pci import CONTROLLER_3D, VGA_CONTROLLER
from gpu_device_plugin.labels import keys
from gpu_device_plugin.labels.gpus import mode_is_known
from gpu_device_plugin.labels.model import Facts, Finding, Label, Problem
from gpu_device_plugin.labels.shares import find_terms
from gpu_device_plugin.labels.values import sanitise

UNKNOWN = "unknown"
DRIVERLESS = frozenset({Platform.TEGRA, Platform.VFIO})
"""Platforms on which no driver tells its version."""
VGPU_KEYS = ("vgpu.*",)


def timestamp(_: Config, facts: Facts) -> Iterator[Finding]:
    """When the program started or was last reloaded."""
    if facts.timestamp is not None:
        yield Label(keys.TIMESTAMP, str(facts.timestamp))


def machine(_: Config, facts: Facts) -> Iterator[Finding]:
    """The product name of the machine."""
    if facts.machine_problem:
        yield Problem(facts.machine_problem)
    yield Label(keys.MACHINE, UNKNOWN if facts.machine is None else sanitise(facts.machine.strip()))


def driver_version(_: Config, facts: Facts) -> Iterator[Finding]:
    """The version of the driver, which has two or three parts."""
    inventory = facts.node.inventory
    full = inventory.driver_version
    if inventory.platform in DRIVERLESS:
        full = ".".join((UNKNOWN,) * 3)
    parts = full.split(".")
    if not full or len(parts) not in {2, 3}:
        what = f"is {full!r}, not X.Y or X.Y.Z" if full else "cannot be read"
        text = f"the version of the driver {what}: no labels for it"
        yield Problem(text, is_failure=True, costs=("cuda.driver-version.*", "cuda.driver.*"))
        return
    major, minor, revision = (*parts, "")[:3]
    yield Label(keys.DRIVER_FULL, full)
    yield Label(keys.DRIVER_MAJOR, major)
    yield Label(keys.DRIVER_MINOR, minor)
    yield Label(keys.DRIVER_REVISION, revision)
    yield Label(keys.OLD_DRIVER_MAJOR, major)
    yield Label(keys.OLD_DRIVER_MINOR, minor)
    yield Label(keys.OLD_DRIVER_REVISION, revision)


def cuda_version(_: Config, facts: Facts) -> Iterator[Finding]:
    """The newest CUDA that the driver supports."""
    inventory = facts.node.inventory
    version = inventory.cuda_driver_version
    if version <= 0 and inventory.platform is not Platform.VFIO:
        text = "the CUDA version of the driver cannot be read"
        yield Problem(text, is_failure=True, costs=("cuda.runtime-version.*", "cuda.runtime.*"))
        return
    major, minor = str(version // 1000), str(version % 1000 // 10)
    yield Label(keys.CUDA_FULL, f"{major}.{minor}")
    yield Label(keys.CUDA_MAJOR, major)
    yield Label(keys.CUDA_MINOR, minor)
    yield Label(keys.OLD_CUDA_MAJOR, major)
    yield Label(keys.OLD_CUDA_MINOR, minor)


def mig_capability(_: Config, facts: Facts) -> Iterator[Finding]:
    """Whether any GPU can be cut into MIG devices."""
    gpus = facts.node.inventory.gpus
    if any(gpu.mig_capable for gpu in gpus):
        yield Label(keys.MIG_CAPABLE, "true")
    elif gpus and all(map(mode_is_known, gpus)):
        yield Label(keys.MIG_CAPABLE, "false")


def mps_capability(config: Config, facts: Facts) -> Iterator[Finding]:
    """Whether replicas of GPUs share them by MPS here, which MIG rules out."""
    inventory = facts.node.inventory
    terms = find_terms(config, inventory)
    if not terms.uses_mps():
        yield Label(keys.MPS_CAPABLE, "false")
    elif terms.planned is not None:
        yield Label(keys.MPS_CAPABLE, "true")
    elif any(gpu.mig_enabled for gpu in inventory.gpus):
        # DEVIATION: v0.19.3 ends here.
        yield Problem("sharing.mps cannot be used on this node: MIG is enabled on a GPU")
        yield Label(keys.MPS_CAPABLE, "false")
    elif inventory.gpus and all(map(mode_is_known, inventory.gpus)):
        yield Label(keys.MPS_CAPABLE, "true")


def mode(_: Config, facts: Facts) -> Iterator[Finding]:
    """Whether the GPUs drive displays or compute only, by their PCI classes."""
    found = [facts.node.pci_classes.get(gpu.index) for gpu in facts.node.inventory.gpus]
    if None in found:
        yield Problem("the PCI class of a GPU cannot be read: gpu.mode is unknown")
    classes = set(found)
    if len(classes) > 1:
        yield Problem("GPUs are of several PCI classes: gpu.mode is unknown")
    names = {VGA_CONTROLLER: "graphics", CONTROLLER_3D: "compute"}
    only = classes.pop() if len(classes) == 1 else None
    yield Label(keys.MODE, UNKNOWN if only is None else names.get(only, UNKNOWN))


def clique(_: Config, facts: Facts) -> Iterator[Finding]:
    """The NVLink fabric and clique that all attached GPUs are in."""
    if not facts.node.fabric_is_known:
        return
    fabrics = set(facts.node.fabrics.values())
    if len(fabrics) > 1:
        yield Problem(
            "GPUs are in several fabric clusters or cliques: no gpu.clique", costs=(keys.CLIQUE,)
        )
    elif fabrics:
        fabric = fabrics.pop()
        yield Label(keys.CLIQUE, f"{fabric.cluster}.{fabric.clique}")


def vgpu(_: Config, facts: Facts) -> Iterator[Finding]:
    """Whether the GPUs are virtual ones, and the driver of their host."""
    if facts.vgpus is None:
        if facts.vgpu_problem:
            yield Problem(f"no labels for vGPU: {facts.vgpu_problem}", costs=VGPU_KEYS)
        return
    if facts.vgpus.problem:
        # DEVIATION: v0.19.3 ends here, or crashes, or never comes to an end.
        text = f"no labels for vGPU: {facts.vgpus.problem}"
        yield Problem(text, is_failure=True, costs=VGPU_KEYS)
        return
    yield Label(keys.VGPU_PRESENT, "true" if facts.vgpus.present else "false")
    driver = facts.vgpus.host_driver
    if driver is not None:
        yield Label(keys.VGPU_VERSION, sanitise(driver.version) or None)
        yield Label(keys.VGPU_BRANCH, sanitise(driver.branch) or None)
