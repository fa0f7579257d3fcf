"""The metrics of a program, for Prometheus (``docs/metrics.md``).

Some are counted as things happen, by a `Listener`; the others are looked up when they are asked
for. Import this only where metrics are served: it loads prometheus-client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter

from prometheus_client import ProcessCollector, Summary, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector, CollectorRegistry

from gpu_device_plugin import __version__
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.plugin.observation import Observation
from gpu_device_plugin.status.metrics.kinds import NAMESPACE, Clock, Count, Known, Maker
from gpu_device_plugin.status.metrics.names import EVERY_GPU, OTHER, Names, label_text
from gpu_device_plugin.status.metrics.observed import family, observed_families
from gpu_device_plugin.status.metrics.plugin import AnswerCount, HealthCount, KubeletCount
from gpu_device_plugin.status.metrics.programs import (
    LabelCount,
    MpsCount,
    ProfileCount,
    ReloadCount,
)
from gpu_device_plugin.status.reporter import Reporter
from gpu_device_plugin.status.settings import configuration_hash
from gpu_device_plugin.telemetry import Happening

MOST_RESOURCES = 64
"""Resource names that are told apart; more than a node with every MIG profile has."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def wants_openmetrics(accept: str) -> bool:
    """Whether an ``Accept`` header names OpenMetrics in the version that is made.

    The library has a function for it, which raises for versions that are no numbers.
    """
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        versions = {p for p in parameters if p.startswith("version=")}
        if kind == "application/openmetrics-text" and versions <= {"version=1.0.0"}:
            return True
    return False


class Part(StrEnum):
    """A part of the product that a program may run."""

    PLUGIN = "plugin"
    LABELS = "labels"
    PROFILES = "profiles"
    MPS = "mps"


PARTS = {
    Program.DEVICE_PLUGIN: (Part.PLUGIN,),
    Program.GPU_FEATURE_DISCOVERY: (Part.LABELS,),
    Program.CONFIG_MANAGER: (Part.PROFILES,),
    Program.MPS_CONTROL_DAEMON: (Part.MPS,),
    Program.AGENT: (Part.PLUGIN, Part.LABELS, Part.PROFILES),
}
"""The parts that each program runs."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """An answer to a scrape."""

    content_type: str
    body: bytes


class Metrics:
    """Counts what happens and answers scrapes; to be used in the event loop only.

    Args:
        reporter: tells how the program is doing; its sources may be set later.
        parts: that the program runs; others have no metrics.
    """

    def __init__(self, reporter: Reporter, parts: Iterable[Part]) -> None:
        # They would double the number of series, and Prometheus does not use them by default.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here
        self._reporter = reporter
        self._parts = frozenset(parts)
        self._resources = Names(MOST_RESOURCES)
        self.registry = CollectorRegistry()
        """Holds all of them, and nothing of other users of the library."""
        make = Maker(self.registry)
        self._counts = tuple(self._make_counts(make, reporter.clock))
        self.registry.register(_Observed(reporter, self._parts, self._resources))
        self._seconds = Summary(
            "scrape_duration_seconds",
            "How long answers to scrapes took to make, up to the one before.",
            namespace=NAMESPACE,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)

    def _make_counts(self, make: Maker, clock: Clock) -> Iterator[Count]:
        if Part.PLUGIN in self._parts:
            yield AnswerCount(make, self._resources)
            yield KubeletCount(make, self._resources)
            yield HealthCount(make, self._gpu_of)
        if self._parts - {Part.PROFILES}:
            yield ReloadCount(make, clock)
        if Part.LABELS in self._parts:
            yield LabelCount(make, clock)
        if Part.PROFILES in self._parts:
            yield ProfileCount(make, clock)
        if Part.MPS in self._parts:
            yield MpsCount(make, self._resources)

    def hear(self, happening: Happening) -> None:
        """Counts what happens; this is the `Listener`."""
        for count in self._counts:
            count.hear(happening)

    def render(self, accept: str = "") -> Exposition:
        """The metrics of this moment.

        Args:
            accept: the request's ``Accept`` header, which may ask for OpenMetrics.
        """
        began = perf_counter()
        known = self._known()
        for count in self._counts:
            count.know(known)
        if wants_openmetrics(accept):
            content_type = OPENMETRICS
            body = openmetrics.generate_latest(self.registry)  # type: ignore[no-untyped-call]  # as above
        else:
            content_type, body = CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self.registry)
        self._seconds.observe(perf_counter() - began)
        return Exposition(content_type, body)

    def _observe(self) -> Observation | None:
        return self._reporter.observe() if self._reporter.observe else None

    def _known(self) -> Known:
        seen = self._observe()
        mps = tuple(daemon.resource for daemon in self._reporter.mps())
        if seen is None or seen.node is None:
            return Known(mps_resources=mps)
        return Known(
            resources=tuple(observed.resource.name for observed in seen.resources),
            gpus=tuple(gpu.index for gpu in seen.node.gpus),
            mps_resources=mps,
        )

    def _gpu_of(self, uuid: str) -> str:
        """The index of a GPU as a label value."""
        if not uuid:
            return EVERY_GPU
        seen = self._observe()
        gpus = () if seen is None or seen.node is None else seen.node.gpus
        return next((str(gpu.index) for gpu in gpus if gpu.uuid == uuid), OTHER)


class _Observed(Collector):
    """The gauges that are looked up."""

    def __init__(self, reporter: Reporter, parts: frozenset[Part], resources: Names) -> None:
        self._reporter = reporter
        self._parts = parts
        self._resources = resources
        self._hashed: tuple[Loaded, str] | None = None
        """The configuration whose hash was asked for last, and that."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All of them; one whose value is not known has no samples."""
        yield from self._program()
        seen = self._reporter.observe() if self._reporter.observe else None
        yield self._configuration(seen)
        if Part.PLUGIN in self._parts:
            pods, holders = self._reporter.pods()
            yield from observed_families(seen or Observation(None), holders, self._resources)
            told = family("pod_resources_up", "Whether the kubelet tells who holds what.")
            if pods.asked:
                told.add_metric([], not pods.problem)
            yield told
        if self._parts & {Part.PLUGIN, Part.MPS}:
            ready = family(
                "mps_daemon_ready", "Whether an MPS daemon runs with its limits.", "resource"
            )
            for daemon in self._reporter.mps():
                ready.add_metric([self._resources(daemon.resource)], daemon.ready)
            yield ready

    def _program(self) -> Iterator[GaugeMetricFamily]:
        reporter = self._reporter
        program = label_text(reporter.program)
        build = family("build_info", "What runs.", "program", "version", "python", "node_name")
        python = ".".join(map(str, sys.version_info[:3]))
        build.add_metric([program, __version__, python, label_text(reporter.node)], 1)
        live = family("live", "Whether the program lives, as its probe says.", "program")
        live.add_metric([program], reporter.liveness().ok)
        ready = family("ready", "Whether the program does its work, as its probe says.", "program")
        ready.add_metric([program], reporter.readiness().ok)
        yield from (build, live, ready)

    def _configuration(self, seen: Observation | None) -> GaugeMetricFamily:
        info = family("config_info", "The configuration in force.", "hash", "profile")
        digest = ""
        if seen is None:
            described = self._reporter.configuration()
            digest = "" if described is None else described.hash
        elif seen.node is not None:
            digest = self._hash(seen.node.loaded)
        profile = self._reporter.profile()
        if digest or profile:
            info.add_metric([digest, label_text(profile)], 1)
        return info

    def _hash(self, loaded: Loaded) -> str:
        if self._hashed is None or self._hashed[0] is not loaded:
            self._hashed = loaded, configuration_hash(loaded)
        return self._hashed[1]
