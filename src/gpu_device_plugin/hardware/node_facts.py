"""All that labels tell of a node's GPUs, read in one go by whichever way the platform has.

A driver library is looked for by its plain name unless a root is given, as k8s-device-plugin
v0.19.3 does in gpu-feature-discovery: ``--driver-root-ctr-path`` has no effect there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from gpu_device_plugin.errors import HardwareError, InitError
from gpu_device_plugin.hardware.model import Gpu, Inventory, Platform
from gpu_device_plugin.hardware.pci import CONTROLLER_3D, VGA_CONTROLLER, pci_class

if TYPE_CHECKING:
    from gpu_device_plugin.hardware.fabric import Fabric
    from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node's GPUs, and what the inventory does not hold."""

    inventory: Inventory
    pci_classes: Mapping[int, int | None] = field(default_factory=dict)
    """PCI class code by GPU index; None where it cannot be read, 0 where there is none."""
    fabrics: Mapping[int, Fabric] = field(default_factory=dict)
    """By GPU index; GPUs that are not attached to a fabric are absent."""
    machine: str | None = None
    """What the machine calls itself, where that is part of the node (a simulated one)."""
    failures: tuple[str, ...] = ()
    """What could not be read although it should be there."""
    fabric_is_known: bool = True
    """False if a GPU would not say whether it is attached."""

    @property
    def has_devices(self) -> bool:
        """Whether there is any GPU, be it one that cannot be read."""
        return bool(self.inventory.gpus or self.inventory.unreadable)


class NodeSource(Protocol):
    """One way to read a node."""

    @property
    def name(self) -> str:
        """The strategy that it stands for."""
        ...

    def read(self) -> NodeFacts:
        """Reads the node, anew each time.

        Raises:
            InitError: there is no driver, or it cannot be used.
        """
        ...


NO_DEVICES = NodeFacts(Inventory(Platform.UNKNOWN))
"""What is known of a node whose driver cannot be used."""


class NvmlSource:
    """A node with NVIDIA's driver, or WSL.

    Args:
        detected: what the node looks like.
        sysfs: where the kernel tells of PCI devices.
        driver_root: the driver root as this process sees it.
        needs_identity: whether devices are handed out by the same reading, too; see
            `read_inventory`.
    """

    name = "nvml"

    def __init__(
        self,
        detected: Platform | None = None,
        sysfs: str = "/sys",
        driver_root: str = "",
        *,
        needs_identity: bool = False,
    ) -> None:
        from gpu_device_plugin.hardware.nvml.library import NvmlLibrary  # noqa: PLC0415 - 3 MB

        self._detected = detected
        self._needs_identity = needs_identity
        self._sysfs = sysfs
        self._library = NvmlLibrary(driver_root)

    def read(self) -> NodeFacts:
        """Reads the node through NVML, and PCI classes from sysfs."""
        from gpu_device_plugin.hardware.fabric import read_fabrics  # noqa: PLC0415 - 3 MB
        from gpu_device_plugin.hardware.nvml.read import read_inventory  # noqa: PLC0415 - 3 MB

        with self._library.session():
            inventory = read_inventory(
                Platform.through_nvml(self._detected),
                detected=self._detected,
                needs_identity=self._needs_identity,
            )
            fabrics = read_fabrics(inventory)
        return NodeFacts(
            inventory,
            pci_classes=_pci_classes(inventory.gpus, self._sysfs),
            fabrics=fabrics.by_gpu,
            failures=(*_unreadable(inventory), *fabrics.problems),
            fabric_is_known=not fabrics.problems,
        )


class CudaSource:
    """A Tegra: its integrated GPU is no PCI device and known to CUDA only."""

    name = "tegra"

    def read(self) -> NodeFacts:
        """Reads the node through the CUDA driver API."""
        from gpu_device_plugin.hardware.cuda import read_cuda_inventory  # noqa: PLC0415 - seldom

        inventory = read_cuda_inventory()
        return NodeFacts(inventory, pci_classes=dict.fromkeys(_indices(inventory), 0))


class VfioSource:
    """GPUs for virtual machines, without a driver."""

    name = "vfio"

    def __init__(self, sysfs: str = "/sys") -> None:
        self._sysfs = sysfs

    def read(self) -> NodeFacts:
        """Reads the node from sysfs."""
        from gpu_device_plugin.hardware.vfio import read_vfio_inventory  # noqa: PLC0415 - seldom

        inventory = read_vfio_inventory(self._sysfs)
        return NodeFacts(
            inventory,
            pci_classes=_pci_classes(inventory.gpus, self._sysfs),
            failures=tuple(_unreadable(inventory)),
        )


class AutoSource:
    """Whatever the platform calls for; looked for anew until there is something."""

    name = "auto"

    def __init__(self) -> None:
        self._found: NodeSource | None = None

    def read(self) -> NodeFacts:
        """Reads the node as its platform is read.

        Raises:
            InitError: there is no trace of a driver, or it cannot be used.
        """
        if self._found is None:
            self._found = self._probe()
        return self._found.read()

    @staticmethod
    def _probe() -> NodeSource:
        from gpu_device_plugin.hardware.nvml.library import NvmlLibrary  # noqa: PLC0415 - 3 MB
        from gpu_device_plugin.hardware.platform import probe  # noqa: PLC0415 - as above

        probes = probe(NvmlLibrary(""), "/")
        platform = probes.platform
        if platform is Platform.UNKNOWN:
            # DEVIATION of v0.19.3 from itself: nvidia-device-plugin tries NVML all the same.
            raise InitError(
                f"no GPU platform was detected ({probes.describe()})",
                "is the NVIDIA driver installed, and the container run by the NVIDIA runtime? "
                "--device-discovery-strategy chooses a platform without looking for it",
            )
        log.debug("platform %s (%s)", platform, probes.describe())
        return CudaSource() if platform is Platform.TEGRA else NvmlSource(platform)


class SimulatedSource:
    """A simulated node; its PCI bus, which is not there, is not looked at."""

    name = "simulated"

    def __init__(self, backend: SimulatedBackend) -> None:
        self._backend = backend

    def read(self) -> NodeFacts:
        """The node as it is now."""
        inventory = self._backend.read()
        profile = self._backend.node.profile
        if profile.platform is Platform.TEGRA and not inventory.gpus:
            return NodeFacts(
                replace(inventory, gpus=(_ORIN,)), {_ORIN.index: 0}, machine=profile.machine
            )
        return NodeFacts(
            inventory,
            pci_classes={gpu.index: _likely_class(gpu) for gpu in inventory.gpus},
            machine=profile.machine or "simulated node",
            failures=tuple(_unreadable(inventory)),
        )


_ORIN = Gpu(
    index=0,
    uuid="",
    minor=0,
    name="Orin (nvgpu)",
    memory_bytes=30697 << 20,
    compute_capability=(8, 7),
)
"""The integrated GPU of a Jetson AGX Orin as CUDA shows it; profiles only say that there is one."""


def open_source(strategy: str, simulate: str = "") -> NodeSource:
    """The way to read this node.

    Args:
        strategy: ``auto`` (or empty), ``nvml``, ``tegra`` or ``vfio``.
        simulate: the profile of a simulated node to read instead.

    Raises:
        ConfigError: there is no such profile, or it is wrong.
    """
    if simulate:
        from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend  # noqa: PLC0415 - seldom

        return SimulatedSource(SimulatedBackend.from_profile(simulate))
    if strategy == "nvml":
        return NvmlSource()
    if strategy == "tegra":
        return CudaSource()
    return VfioSource() if strategy == "vfio" else AutoSource()


def _indices(inventory: Inventory) -> list[int]:
    return [gpu.index for gpu in inventory.gpus]


def _unreadable(inventory: Inventory) -> list[str]:
    return [f"GPU {gpu.index} cannot be read: {gpu.reason}" for gpu in inventory.unreadable]


def _pci_classes(gpus: tuple[Gpu, ...], sysfs: str) -> dict[int, int | None]:
    classes = dict[int, int | None]()
    for gpu in gpus:
        try:
            classes[gpu.index] = pci_class(gpu.sysfs_id, sysfs)
        except HardwareError as error:
            log.debug("no PCI class of GPU %d: %s", gpu.index, error)
            classes[gpu.index] = None
    return classes


_DISPLAY_BRANDS = frozenset({1, 5, 6, 10, 11, 12, 13})
"""NVML's brands Quadro, GeForce and Titan, and their RTX forms: cards with display outputs."""


def _likely_class(gpu: Gpu) -> int:
    return VGA_CONTROLLER if gpu.brand in _DISPLAY_BRANDS else CONTROLLER_3D
