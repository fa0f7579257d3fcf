"""What is counted in the device plugin: answers, what the kubelet is told, health events."""

from __future__ import annotations

from collections.abc import Callable

from gpu_device_plugin.status.metrics.kinds import Known, Maker
from gpu_device_plugin.status.metrics.names import EVERY_GPU, Names, xid_label
from gpu_device_plugin.telemetry import (
    Answered,
    Call,
    ChosenWithoutLinks,
    Happening,
    HealthChanged,
    ListSent,
    Outcome,
    Registered,
    StreamOpened,
    Turn,
)

ANSWER_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Buckets of answers to the kubelet, which take a millisecond unless something is wrong."""
CALLS = {
    Call.ALLOCATE: ("allocation", "Allocate"),
    Call.PREFER: ("preferred_allocation", "GetPreferredAllocation"),
}
"""What a call is called in metrics, and in the device plugin API."""


class AnswerCount:
    """Answers to the kubelet.

    Args:
        make: makes the metrics.
        resources: tells the label value of a resource.
    """

    def __init__(self, make: Maker, resources: Names) -> None:
        self._name = resources
        labels = "resource", "outcome"
        self._answers = {
            call: make.counter(f"{name}s", f"Answers to {method}.", labels)
            for call, (name, method) in CALLS.items()
        }
        self._seconds = {
            call: make.histogram(
                f"{name}_duration_seconds",
                f"How long answers to {method} took.",
                ANSWER_SECONDS,
                labels,
            )
            for call, (name, method) in CALLS.items()
        }
        self._without_links = make.counter(
            "preferred_allocations_without_links",
            "Choices among GPUs whose links were not known yet.",
            ("resource",),
        )

    def hear(self, happening: Happening) -> None:
        """Counts answers."""
        if isinstance(happening, Answered):
            labels = self._name(happening.resource), str(happening.outcome)
            self._answers[happening.call].labels(*labels).inc()
            self._seconds[happening.call].labels(*labels).observe(happening.seconds)
        elif isinstance(happening, ChosenWithoutLinks):
            self._without_links.labels(self._name(happening.resource)).inc()

    def know(self, known: Known) -> None:
        """Makes series for each resource; times of other outcomes come with the first one."""
        for resource in map(self._name, known.resources):
            for call in Call:
                self._seconds[call].labels(resource, str(Outcome.OK))
                for outcome in Outcome:
                    self._answers[call].labels(resource, str(outcome))
            self._without_links.labels(resource)


class KubeletCount:
    """What the kubelet is told.

    Args:
        make: makes the metrics.
        resources: tells the label value of a resource.
    """

    def __init__(self, make: Maker, resources: Names) -> None:
        self._name = resources
        self._registrations = make.counter(
            "registrations",
            "Attempts to register a resource with the kubelet.",
            ("resource", "outcome"),
        )
        self._streams = make.counter(
            "streams_opened", "Streams that the kubelet has opened.", ("resource",)
        )
        self._lists = make.counter(
            "device_lists_sent", "Device lists that were sent to the kubelet.", ("resource",)
        )

    def hear(self, happening: Happening) -> None:
        """Counts registrations, streams and lists."""
        if isinstance(happening, Registered):
            labels = self._name(happening.resource), str(happening.outcome)
            self._registrations.labels(*labels).inc()
        elif isinstance(happening, StreamOpened):
            self._streams.labels(self._name(happening.resource)).inc()
        elif isinstance(happening, ListSent):
            self._lists.labels(self._name(happening.resource)).inc()

    def know(self, known: Known) -> None:
        """Makes series for each resource."""
        for resource in map(self._name, known.resources):
            for outcome in Outcome:
                self._registrations.labels(resource, str(outcome))
            self._streams.labels(resource)
            self._lists.labels(resource)


class HealthCount:
    """What the driver tells of GPUs.

    Args:
        make: makes the metrics.
        gpu_of: tells the label value of a GPU by its UUID.
    """

    def __init__(self, make: Maker, gpu_of: Callable[[str], str]) -> None:
        self._gpu_of = gpu_of
        self._events = make.counter(
            "gpu_health_events",
            "What the driver has told of a GPU, and what came of it.",
            ("gpu", "result"),
        )
        self._xids = make.counter(
            "gpu_xids", "XIDs of a GPU, and what came of them.", ("gpu", "xid", "result")
        )

    def hear(self, happening: Happening) -> None:
        """Counts health events."""
        if not isinstance(happening, HealthChanged):
            return
        gpu, result = self._gpu_of(happening.gpu_uuid), str(happening.turn)
        self._events.labels(gpu, result).inc()
        if happening.xid is not None:
            self._xids.labels(gpu, xid_label(happening.xid), result).inc()

    def know(self, known: Known) -> None:
        """Makes series for each GPU; that of an XID comes with the first one."""
        if not known.gpus:
            return
        for gpu in (EVERY_GPU, *map(str, known.gpus)):
            for turn in Turn:
                self._events.labels(gpu, str(turn))
