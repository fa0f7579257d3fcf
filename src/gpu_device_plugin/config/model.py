"""The configuration as typed, immutable values, after all sources are merged.

The shape is that of the file format ``version: v1`` of k8s-device-plugin (api/config/v1);
`None` stands for a null that no source has filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_device_plugin.config.model_mps import MpsSettings


class MigStrategy(StrEnum):
    """How MIG devices are exposed."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class DeviceListStrategy(StrEnum):
    """How the list of devices reaches the container runtime."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"

    @property
    def is_cdi(self) -> bool:
        """Whether devices are injected through CDI specifications."""
        return self in {DeviceListStrategy.CDI_ANNOTATIONS, DeviceListStrategy.CDI_CRI}


class DeviceIdStrategy(StrEnum):
    """The form of ids handed to the container runtime."""

    UUID = "uuid"
    INDEX = "index"


class AllocationPolicy(StrEnum):
    """Which GPU the next replica is preferred from."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"


class SharingStrategy(StrEnum):
    """How replicas of a GPU share it."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class PluginFlags:
    """``flags.plugin``."""

    pass_device_specs: bool | None = None
    device_list_strategy: tuple[str, ...] | None = None
    device_id_strategy: str | None = None
    cdi_annotation_prefix: str | None = None
    nvidia_ctk_path: str | None = None
    container_driver_root: str | None = None
    shared_devices_allocation_policy: str | None = None


@dataclass(frozen=True, slots=True)
class GfdFlags:
    """``flags.gfd``."""

    oneshot: bool | None = None
    no_timestamp: bool | None = None
    sleep_interval: int | None = None
    """Nanoseconds; `durations.INFINITE` for no repetition."""
    output_file: str | None = None
    machine_type_file: str | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """``flags``."""

    mig_strategy: str | None = None
    fail_on_init_error: bool | None = None
    mps_root: str | None = None
    nvidia_driver_root: str | None = None
    nvidia_dev_root: str | None = None
    gdrcopy_enabled: bool | None = None
    gds_enabled: bool | None = None
    mofed_enabled: bool | None = None
    use_node_feature_api: bool | None = None
    device_discovery_strategy: str | None = None
    plugin: PluginFlags = field(default_factory=PluginFlags)
    gfd: GfdFlags | None = None


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """An entry of ``resources.gpus`` or ``resources.mig``."""

    pattern: str
    name: str


@dataclass(frozen=True, slots=True)
class Resources:
    """``resources``: which devices are offered under which name; the first match wins."""

    gpus: tuple[ResourcePattern, ...] | None = None
    mig: tuple[ResourcePattern, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """``devices`` of a shared resource: all, a count, or a list of references."""

    all: bool = True
    count: int = 0
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicatedResource:
    """One shared resource."""

    name: str
    replicas: int
    rename: str = ""
    devices: DeviceSelector = field(default_factory=DeviceSelector)

    @property
    def shared_name(self) -> str:
        """The name under which the replicas are offered."""
        return self.rename or self.name


@dataclass(frozen=True, slots=True)
class ReplicatedResources:
    """``sharing.timeSlicing`` or ``sharing.mps``."""

    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    """None if the file does not say: false for time-slicing, true for MPS."""
    resources: tuple[ReplicatedResource, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether any resource really has replicas."""
        return any(r.replicas > 1 for r in self.resources)


@dataclass(frozen=True, slots=True)
class Sharing:
    """``sharing``."""

    time_slicing: ReplicatedResources = field(default_factory=ReplicatedResources)
    mps: ReplicatedResources | None = None

    @property
    def strategy(self) -> SharingStrategy:
        """MPS where it has replicas, else time-slicing where that has."""
        if self.mps is not None and self.mps.is_active:
            return SharingStrategy.MPS
        if self.time_slicing.is_active:
            return SharingStrategy.TIME_SLICING
        return SharingStrategy.NONE

    @property
    def replicated(self) -> ReplicatedResources:
        """The section in effect: a present MPS section hides time-slicing."""
        return self.time_slicing if self.mps is None else self.mps


@dataclass(frozen=True, slots=True)
class Imex:
    """``imex``: channels to inject into every container."""

    channel_ids: tuple[int, ...] = ()
    required: bool = False


class XidAction(StrEnum):
    """What an XID, an error that the driver reports of a GPU, does to the devices it hits."""

    IGNORE = "ignore"
    WARN = "warn"
    """A line in the log, no more."""
    UNHEALTHY = "unhealthy"
    """No containers get the device until it recovers, where recovery is on."""
    UNHEALTHY_UNTIL_RESET = "unhealthy-until-reset"
    """No containers get the device until its GPU has been reset."""


class MonitorFailure(StrEnum):
    """What devices are while their health cannot be watched."""

    UNHEALTHY = "unhealthy"
    UNMONITORED = "unmonitored"
    """Offered as if they were healthy."""


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """``extensions.health.recovery``: how unhealthy devices become healthy again."""

    enabled: bool = False
    quiet_period: int = 300 * 10**9
    """Nanoseconds without a further error before a device is tried."""


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """``extensions.health``."""

    xids: Mapping[int, XidAction] = field(default_factory=dict)
    """What the file says of XIDs; the others are treated as always."""
    monitor_failure: MonitorFailure = MonitorFailure.UNHEALTHY
    recovery: RecoverySettings = field(default_factory=RecoverySettings)


@dataclass(frozen=True, slots=True)
class GpuSelection:
    """``extensions.gpus``: which GPUs are offered at all; what is excluded is not included."""

    include: tuple[str, ...] | None = None
    """Indices, UUIDs and model patterns, as in the two below; None for every GPU."""
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSharing:
    """An entry of ``extensions.sharing``; the first one that selects a device decides over it."""

    strategy: SharingStrategy
    """`NONE` is written ``exclusive``."""
    gpus: tuple[str, ...] | None = None
    """None for every GPU."""
    mig: tuple[str, ...] | None = None
    """Patterns of the profiles of MIG devices, which are then all that is selected."""
    replicas: int = 0
    rename: str = ""
    fail_requests_greater_than_one: bool | None = None

    @property
    def selects_everything(self) -> bool:
        """Whether nothing is left for later entries, on whatever node."""
        return self.mig is None and (self.gpus is None or "*" in self.gpus)


@dataclass(frozen=True, slots=True)
class Extensions:
    """``extensions``: settings that k8s-device-plugin lacks."""

    honour_names: bool = False
    """Whether custom resource names and selections of devices count."""
    gpus: GpuSelection = field(default_factory=GpuSelection)
    sharing: tuple[GpuSharing, ...] = ()
    health: HealthSettings = field(default_factory=HealthSettings)
    mps: MpsSettings = field(default_factory=MpsSettings)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that a program was told."""

    version: str = "v1"
    flags: Flags = field(default_factory=Flags)
    resources: Resources = field(default_factory=Resources)
    sharing: Sharing = field(default_factory=Sharing)
    imex: Imex = field(default_factory=Imex)
    extensions: Extensions = field(default_factory=Extensions)

    @property
    def device_list_strategies(self) -> tuple[DeviceListStrategy, ...]:
        """The strategies in effect; raises ValueError before validation has passed."""
        return tuple(DeviceListStrategy(s) for s in self.flags.plugin.device_list_strategy or ())

    def uses_mps(self) -> bool:
        """Whether any device may be shared through MPS."""
        others = (entry.strategy for entry in self.extensions.sharing)
        return SharingStrategy.MPS in {self.sharing.strategy, *others}

    def uses_cdi(self) -> bool:
        """Whether any strategy needs CDI specifications."""
        return any(s.is_cdi for s in self.device_list_strategies)

    def names_by_index(self) -> bool:
        """Whether containers are told of devices by index, and not by UUID."""
        return self.flags.plugin.device_id_strategy == DeviceIdStrategy.INDEX
