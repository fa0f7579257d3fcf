"""The node's GPUs as plain, immutable data.

Everything above this layer is a pure function of the configuration and of an `Inventory`; no
code there calls a driver. Terms are NVML's and those of the NVIDIA MIG user guide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Platform(StrEnum):
    """What kind of system the driver runs on (go-nvlib's platform resolver)."""

    NVML = "nvml"
    TEGRA = "tegra"
    WSL = "wsl"
    VFIO = "vfio"
    UNKNOWN = "unknown"

    @staticmethod
    def through_nvml(detected: Platform | None) -> Platform:
        """What a node is taken for that is read through NVML, by what it looks like."""
        return Platform.WSL if detected is Platform.WSL else Platform.NVML


@dataclass(frozen=True, slots=True)
class MigAttributes:
    """Hardware share of a MIG device (NVML `nvmlDeviceGetAttributes_v2`)."""

    multiprocessors: int
    shared_copy_engines: int
    shared_decoders: int
    shared_encoders: int
    shared_jpeg: int
    shared_ofa: int
    gpu_instance_slices: int
    compute_instance_slices: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A MIG profile such as ``1c.3g.20gb`` or ``1g.24gb+me``."""

    compute_slices: int
    gpu_slices: int
    memory_gib: int
    attributes: tuple[str, ...] = ()
    """Extras that the profile has (``me``, ``gfx``, ``me.all``)."""
    negative_attributes: tuple[str, ...] = ()
    """Extras that the profile leaves out (``me`` in ``1g.24gb-me``)."""

    def __str__(self) -> str:
        prefix = "" if self.compute_slices == self.gpu_slices else f"{self.compute_slices}c."
        plus = "".join(f"+{a}" for a in self.attributes)
        minus = "".join(f"-{a}" for a in self.negative_attributes)
        return f"{prefix}{self.gpu_slices}g.{self.memory_gib}gb{plus}{minus}"


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device: a compute instance on a GPU instance."""

    slot: int
    """NVML's MIG index on its GPU; slots may have holes."""
    uuid: str
    gpu_instance: int
    compute_instance: int
    profile: MigProfile
    attributes: MigAttributes
    memory_bytes: int
    """Total memory; 0 if the driver does not tell."""
    capability_minors: tuple[int, int] | None = None
    """Minors of the ``nvidia-cap`` nodes of GPU and compute instance; None if not known."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical GPU."""

    index: int
    """NVML index; display-only GPUs are left out, so numbers may have gaps."""
    uuid: str
    minor: int
    """Number of the device node ``/dev/nvidia<minor>``; need not equal the index."""
    name: str
    """The product; empty, where that need not be known, if the driver does not tell."""
    memory_bytes: int = 0
    """Total memory; 0 if the driver does not tell (as on GPUs that share the host's memory)."""
    compute_capability: tuple[int, int] | None = None
    pci_bus_id: str = ""
    """As NVML writes it, e.g. ``00000000:3B:00.0``; empty if there is none."""
    pci_device_id: int = 0
    """Device and vendor id as NVML combines them (device in the upper 16 bits)."""
    numa_node: int | None = None
    brand: int = 0
    coherent: bool | None = False
    """Shares one address space with the CPU (NVML addressing mode ATS); None if NVML fails to
    tell."""
    mig_capable: bool = False
    mig_enabled: bool = False
    """The current mode, not the pending one."""
    mig_devices: tuple[MigDevice, ...] = ()
    mig_profiles: tuple[str, ...] = ()
    """Profiles that the GPU can be cut into, in NVML's order."""
    mig_problem: str = ""
    """Why the mode or the MIG devices could not be read; empty if they could."""
    mig_profiles_problem: str = ""
    """Why the profiles could not be read; empty if they could."""
    lost: str = ""
    """Why it cannot be read any more, though it could before; empty if it can."""

    @property
    def sysfs_id(self) -> str:
        """The PCI address as sysfs writes it, e.g. ``0000:3b:00.0``; empty if there is none."""
        return sysfs_address(self.pci_bus_id)


def sysfs_address(bus_id: str) -> str:
    """NVML's PCI address as sysfs writes it: the domain with four digits, more if it needs them.

    The original cuts four zeros off the text, which is the same for domains below 10000 in
    NVML's form of eight digits. What is no address gives an empty text.
    """
    domain, colon, rest = bus_id.lower().partition(":")
    if not colon or "/" in rest:
        return ""
    try:
        return f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class UnreadableGpu:
    """A GPU that NVML counts but that could not be read."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that was read of a node at one moment."""

    platform: Platform
    gpus: tuple[Gpu, ...] = ()
    unreadable: tuple[UnreadableGpu, ...] = ()
    driver_version: str = ""
    cuda_driver_version: int = 0
    """As NVML tells it: 12040 is CUDA 12.4."""
    detected: Platform | None = None
    """What the machine looks like, whatever strategy was asked for; None if nobody looked."""

    def gpu(self, uuid: str) -> Gpu | None:
        """The GPU with that UUID."""
        return next((g for g in self.gpus if g.uuid == uuid), None)

    def keeping_lost(self, known: Inventory | None) -> Inventory:
        """This inventory with the GPUs that were known before and cannot be read any more.

        They stay as they were, so that they are reported as broken and not as never there.
        """
        before = {} if known is None else {gpu.index: gpu for gpu in known.gpus}
        there = {gpu.uuid for gpu in self.gpus}
        lost = [
            replace(before[gone.index], lost=gone.reason)
            for gone in self.unreadable
            if gone.index in before and before[gone.index].uuid not in there
        ]
        kept = {gpu.index for gpu in lost}
        return replace(
            self,
            gpus=tuple(sorted((*self.gpus, *lost), key=lambda gpu: gpu.index)),
            unreadable=tuple(gone for gone in self.unreadable if gone.index not in kept),
        )

    def indices(self) -> Iterator[int]:
        """The indices of all GPUs, of those that cannot be read, too."""
        yield from (gpu.index for gpu in self.gpus)
        yield from (gpu.index for gpu in self.unreadable)

    def mig_pairs(self) -> Iterator[tuple[Gpu, MigDevice]]:
        """Every MIG device with its GPU, by GPU index, then slot."""
        for gpu in self.gpus:
            for mig in gpu.mig_devices:
                yield gpu, mig


@dataclass(frozen=True, slots=True)
class Links:
    """How the GPUs of a node are connected, by NVML index.

    Read apart from the inventory, as NVML takes long over it on large machines and nothing but
    the preferred allocation needs it.
    """

    ancestors: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """NVML common-ancestor level (0, 10 … 50) of each ordered pair; unknown pairs are absent."""
    nvlinks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Active NVLinks that the first GPU reports to the second; 0 is absent."""
    problems: tuple[str, ...] = ()


class HealthKind(StrEnum):
    """What a health event is about."""

    XID = "xid"
    """A critical error that the driver reported (an XID)."""
    UNMONITORABLE = "unmonitorable"
    """The GPU cannot be watched and may be broken."""
    MONITORABLE = "monitorable"
    """The GPU is watched, which it could not be before."""
    LOST = "lost"
    """The GPU cannot be read any more."""
    MONITOR_NOT_STARTED = "monitor-not-started"
    """The monitor cannot be started: nothing is known of any GPU as long as that lasts."""
    MONITOR_LOST = "monitor-lost"
    """A monitor that watched has failed, as it does when a GPU falls off the bus."""
    MONITOR_READY = "monitor-ready"
    """The monitor watches (again)."""
    MONITOR_ALIVE = "monitor-alive"
    """The driver has answered the monitor; told every few seconds, from the start, by a monitor
    that a driver can hold up."""


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """One change of health that a backend reports."""

    kind: HealthKind
    uuid: str | None = None
    """The physical GPU; None means every GPU."""
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    reason: str = ""
