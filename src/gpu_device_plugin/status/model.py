"""The status of a node as plain data, in the shape in which it is published.

Field names are those of the JSON document (``docs/status.md``); every reader of a status, be it a
page, a table or a metric, works on this. Times are seconds since 1970, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = "gpu-node/status/v1"
"""Names the form of the document; fields may be added to it, none change their meaning."""


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of a probe."""

    ok: bool
    reasons: tuple[str, ...] = ()
    """Why it is not, one short sentence each; empty if it is."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that has been given a device or some of its replicas."""

    namespace: str
    pod: str
    container: str
    replicas: tuple[int, ...] = ()
    """Numbers of the replicas; empty for a device that is not shared."""


@dataclass(frozen=True, slots=True)
class Illness:
    """Why a device is unhealthy."""

    reason: str
    meaning: str
    severity: str
    """``provisional``, ``recoverable``, ``unwatchable``, ``until-reset`` or ``lost``; empty if it
    is not known, and then so are the times and the number of events: 0."""
    first: float
    last: float
    count: int


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A GPU or MIG device as it is offered."""

    id: str
    index: str
    gpu_uuid: str
    gpu_index: int
    mig: bool
    replicas: int
    """How many are offered in its place; 0 if it is offered itself."""
    numa_node: int | None
    healthy: bool
    illness: Illness | None = None
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """An extended resource of the node."""

    name: str
    sharing: str
    """``none``, ``time-slicing`` or ``mps``; empty if it is not known."""
    state: str
    """As `gpu_device_plugin.plugin.served.State` names it; empty if nobody tells."""
    registered: bool
    streams: int
    """How many the kubelet has open."""
    capacity: int
    """Devices, replicas counted, as the kubelet counts them."""
    allocatable: int
    """Of these, how many are healthy."""
    in_use: int | None
    """Of these, how many containers hold; None if the kubelet does not tell."""
    single: bool
    """Whether a container may have one only."""
    devices: tuple[DeviceStatus, ...] = ()
    health_known: bool = True
    """Whether devices that nothing is known against are healthy, or just not asked about."""


@dataclass(frozen=True, slots=True)
class MigStatus:
    """A MIG device of a GPU, offered or not."""

    uuid: str
    slot: int
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """A physical GPU."""

    index: int
    uuid: str
    name: str
    memory_bytes: int
    pci_bus_id: str
    numa_node: int | None
    compute_capability: str
    """``8.0``; empty if it is not known."""
    mig_enabled: bool
    lost: str
    """Why it cannot be read any more; empty if it can."""
    mig_devices: tuple[MigStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """What connects two GPUs, by index; the first index is the smaller one."""

    a: int
    b: int
    kind: str
    """The topology command's word: ``NV12``, or ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS``."""
    nvlinks: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs of the node."""

    platform: str
    simulated: str
    """The profile of a simulated node; empty for real hardware."""
    driver_version: str
    cuda_version: str
    problem: str
    """Why the driver cannot be used; empty if it can."""
    watch: str
    """As `gpu_device_plugin.plugin.health.WatchState` names it; empty if nobody tells."""
    gpus: tuple[GpuStatus, ...] = ()
    unreadable: tuple[str, ...] = ()
    """One sentence for each GPU that the driver counts and that cannot be read."""
    links: tuple[LinkStatus, ...] = ()
    links_known: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of the running configuration."""

    path: str
    """Key of the file, such as ``flags.migStrategy``."""
    value: str
    """As JSON."""
    origin: str
    """The flag, variable, or file and line that has set it; empty for a default."""


@dataclass(frozen=True, slots=True)
class Reloading:
    """The last reload."""

    time: float
    error: str
    """Why the former configuration stays in force; empty if it does not."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the program was told."""

    file: str
    profile: str
    """The name of the configuration that the node's label has chosen, where somebody follows it."""
    hash: str
    """The first 16 digits of the SHA-256 of the merged configuration as the log prints it; empty
    in a program that does not read it."""
    settings: tuple[Setting, ...] = ()
    warnings: tuple[str, ...] = ()
    reload: Reloading | None = None
    problem: str = ""
    """Why what is wanted is not in force; empty if it is."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """The labels of the node, where the program makes them."""

    time: float
    """Of the last pass; 0 before the first one."""
    place: str
    """Where they are published."""
    labels: tuple[tuple[str, str], ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MpsStatus:
    """An MPS daemon."""

    resource: str
    ready: bool
    detail: str


@dataclass(frozen=True, slots=True)
class FormerHolding:
    """A device, or replicas of it, that a container holds and that is not offered (any more)."""

    resource: str
    device: str
    """Its id, without replica number."""
    index: str
    """``3`` or ``3:1``, if the node has such a device; else empty."""
    holder: Holder


@dataclass(frozen=True, slots=True)
class Pods:
    """What the kubelet tells of who holds what."""

    asked: bool
    """Whether it is asked at all."""
    problem: str = ""
    """Why it does not tell; empty if it does. What it has told last stays, and may be old."""
    time: float = 0
    """Of the last answer; 0 before the first one."""
    former: tuple[FormerHolding, ...] = ()
    """What containers hold and is not offered any more, as after a change of the configuration."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A line of the program's log."""

    time: float
    level: str
    """``info``, ``warning`` or ``error``."""
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """Everything that a program knows of its node."""

    schema: str
    program: str
    version: str
    node: str
    """Name of the node; empty if it is not known."""
    time: float
    started: float
    live: Check
    ready: Check
    hardware: Hardware | None = None
    resources: tuple[ResourceStatus, ...] = ()
    pods: Pods = field(default_factory=lambda: Pods(asked=False))
    configuration: Configuration | None = None
    labelling: Labelling | None = None
    mps: tuple[MpsStatus, ...] = ()
    events: tuple[LogEvent, ...] = ()
    """The newest first."""
