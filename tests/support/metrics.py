"""A plugin as metrics see it, without one running; and scrapes, read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from prometheus_client.parser import text_string_to_metric_families

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.observation import Observation, ObservedResource, Reload
from gpu_device_plugin.plugin.response import AllocationSettings
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.resources.model import Device, Plan, Resource
from gpu_device_plugin.status.collect import Holders
from gpu_device_plugin.status.metrics.metrics import Metrics, Part
from gpu_device_plugin.status.model import Configuration, MpsStatus, Pods
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.telemetry import HealthChanged, Turn
from support.backends import ToldBackend
from support.configs import a_config
from support.inventories import a_gpu, a_node

GPU = "nvidia.com/gpu"
NOW = 1_700_000_000.0

Labels = Mapping[str, str]

HOSTILE = (
    'quo"te',
    "back\\slash",
    "two\nlines",
    "carriage\rreturn",
    "lone \udcff surrogate",
    "nul \0 byte",
    "line separator \u2028 and \x85",
    "}} 1 # HELP x y",
    "名前",
    "x" * 10_000,
    "",
)
"""Names that a careless writer of metrics does not survive."""


def an_ailment(reason: str, severity: Severity = Severity.RECOVERABLE) -> Ailment:
    """Something against a device, from the beginning."""
    return Ailment(reason, severity, first=NOW, last=NOW)


def gpus(count: int, *, name: str = GPU, replicas: int = 0) -> Resource:
    """A resource of so many whole GPUs."""
    devices = tuple(
        Device(f"GPU-{n}", str(n), gpu_uuid=f"GPU-{n}", gpu_index=n, replicas=replicas)
        for n in range(count)
    )
    return Resource(name, devices)


class Scrape:
    """An answer, read by prometheus-client's own parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]()
        self.families = dict[str, str]()
        """The type of each metric, by the name that stands in front of its samples."""
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            self.families[name] = family.type
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in self._samples, f"twice: {key}"
                self._samples[key] = sample.value

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one series; None if there is none."""
        return self._samples.get((name, tuple(sorted(labels.items()))))

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """All series of a metric, by the values of their labels in the order of the names."""
        return {
            tuple(value for _, value in labels): number
            for (at, labels), number in self._samples.items()
            if at == name
        }

    def keys_of(self, name: str) -> list[tuple[str, ...]]:
        """The names of the labels of each series of a metric."""
        return [tuple(key for key, _ in labels) for at, labels in self._samples if at == name]

    @property
    def size(self) -> int:
        return len(self._samples)


@dataclass
class Stage:
    """What a program reports; to be changed between scrapes."""

    parts: Iterable[Part] = tuple(Part)
    program: str = "nvidia-device-plugin"
    node: str = "node-1"
    inventory: Inventory | None = field(default_factory=lambda: a_node(2))
    resources: list[ObservedResource] = field(default_factory=list)
    links: Links | None = None
    watch: WatchState = WatchState.WATCHING
    init_problem: str = ""
    offer_problem: str = ""
    last_reload: Reload | None = None
    pods: Pods = field(default_factory=lambda: Pods(asked=False))
    holders: Holders | None = None
    mps: tuple[MpsStatus, ...] = ()
    profile: str = ""
    configuration: Configuration | None = None
    is_read: bool = True
    has_plugin: bool = True
    now: float = NOW

    def __post_init__(self) -> None:
        self.loaded = Loaded(a_config())
        self.reporter = Reporter(
            self.program,
            node=self.node,
            clock=lambda: self.now,
            observe=self.observe if self.has_plugin else None,
            pods=lambda: (self.pods, self.holders),
            mps=lambda: self.mps,
            profile=lambda: self.profile,
            configuration=lambda: self.configuration,
        )
        self.metrics = Metrics(self.reporter, self.parts)
        self.tell = self.metrics.hear

    def observe(self) -> Observation:
        return Observation(
            node=self._node() if self.is_read else None,
            resources=tuple(self.resources),
            links=self.links,
            watch=self.watch,
            offer_problem=self.offer_problem,
            last_reload=self.last_reload,
        )

    def _node(self) -> Node:
        return Node(
            loaded=self.loaded,
            backend=ToldBackend(self.inventory or a_node(0)),
            inventory=self.inventory,
            plan=Plan(),
            settings=AllocationSettings.of(self.loaded.config),
            init_problem=self.init_problem,
        )

    def serve(
        self,
        resource: Resource,
        ailments: Mapping[str, Ailment] | None = None,
        *,
        state: State = State.REGISTERED,
        streams: int = 1,
    ) -> None:
        """Adds a resource."""
        self.resources.append(ObservedResource(resource, state, streams, ailments or {}))

    def change(self, **changes: object) -> None:
        """Changes the only resource."""
        (only,) = self.resources
        self.resources = [replace(only, **changes)]  # type: ignore[arg-type]  # by field name

    def scrape(self) -> Scrape:
        return Scrape(self.metrics.render().body.decode())


SAMPLES = ("_bucket", "_sum", "_count")
"""What is added to the name of a histogram or summary."""


@dataclass(frozen=True)
class Metric:
    """A metric as it is documented, or as it is served."""

    name: str
    type: str
    labels: frozenset[str]


def everything() -> Scrape:
    """A scrape in which each metric has a series."""
    stage = Stage(profile="a", pods=Pods(asked=True), holders={})
    stage.inventory = a_node([a_gpu(0), a_gpu(1)])
    stage.serve(gpus(2), {"GPU-0": an_ailment("XID 79")})
    stage.mps = (MpsStatus(GPU, ready=True, detail=""),)
    stage.tell(HealthChanged(Turn.UNHEALTHY, "GPU-0", "XID 79", xid=79))
    return stage.scrape()


def exposed() -> Iterator[Metric]:
    scrape = everything()
    for name, kind in scrape.families.items():
        labels = set[str]()
        samples = [name, *(name + part for part in SAMPLES)]
        found = [key for sample in samples for key in scrape.keys_of(sample)]
        assert found, f"{name} has no series"
        for each in found:
            labels |= set(each)
        yield Metric(name, kind, frozenset(labels - {"le"}))
