"""What is counted in any program: reloads, passes of labelling, profiles, MPS daemons."""

from __future__ import annotations

import math

from gpu_device_plugin.status.metrics.kinds import Clock, Known, Maker
from gpu_device_plugin.status.metrics.names import Names
from gpu_device_plugin.telemetry import (
    DaemonStarted,
    Happening,
    Labelled,
    Outcome,
    ProfileApplied,
    Reloaded,
)

PASS_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Buckets of passes of labelling, which ask the driver and the Kubernetes API."""
TRIED = (Outcome.OK, Outcome.FAILED)
"""How something ends that nobody can refuse."""


class ReloadCount:
    """How reading configuration and hardware anew went.

    Args:
        make: makes the metrics.
        clock: tells the time.
    """

    def __init__(self, make: Maker, clock: Clock) -> None:
        self._clock = clock
        self._reloads = make.counter(
            "reloads", "Times that configuration and hardware were read anew.", ("outcome",)
        )
        self._is_good = make.gauge(
            "last_reload_successful",
            "Whether the last reload succeeded; 1 before the first one.",
        )
        self._good = make.gauge(
            "last_reload_success_timestamp_seconds",
            "When the last reload succeeded; the start counts as one.",
        )
        self._bad = make.gauge(
            "last_reload_failure_timestamp_seconds", "When a reload failed last; 0 if none has."
        )
        self._is_good.set(1)
        self._good.set(clock())
        for outcome in TRIED:
            self._reloads.labels(str(outcome))

    def hear(self, happening: Happening) -> None:
        """Counts reloads."""
        if not isinstance(happening, Reloaded):
            return
        is_good = happening.outcome is Outcome.OK
        self._reloads.labels(str(happening.outcome)).inc()
        self._is_good.set(is_good)
        (self._good if is_good else self._bad).set(self._clock())

    def know(self, known: Known) -> None:
        """All series are there from the start."""


class LabelCount:
    """Passes of labelling.

    Args:
        make: makes the metrics.
        clock: tells the time.
    """

    def __init__(self, make: Maker, clock: Clock) -> None:
        self._clock = clock
        self._passes = make.counter("label_passes", "Passes of labelling the node.", ("outcome",))
        self._seconds = make.histogram(
            "label_pass_duration_seconds", "How long passes of labelling took.", PASS_SECONDS
        )
        self._labels = make.gauge("labels", "Labels that the last good pass has published.")
        self._good = make.gauge(
            "last_label_success_timestamp_seconds", "When a pass succeeded last; 0 if none has."
        )
        self._next = make.gauge(
            "next_label_pass_timestamp_seconds",
            "When the next pass is due; +Inf if none is, and before the first one.",
        )
        self._next.set(math.inf)
        for outcome in Outcome:
            self._passes.labels(str(outcome))

    def hear(self, happening: Happening) -> None:
        """Counts passes."""
        if not isinstance(happening, Labelled):
            return
        now = self._clock()
        self._passes.labels(str(happening.outcome)).inc()
        self._seconds.observe(happening.seconds)
        self._next.set(now + (math.inf if happening.pause is None else happening.pause))
        if happening.outcome is Outcome.OK:
            self._labels.set(happening.labels)
            self._good.set(now)

    def know(self, known: Known) -> None:
        """All series are there from the start."""


class ProfileCount:
    """Configurations that the node's label asks for.

    Args:
        make: makes the metrics.
        clock: tells the time.
    """

    def __init__(self, make: Maker, clock: Clock) -> None:
        self._clock = clock
        self._changes = make.counter(
            "profile_changes", "Changes of the configuration that the node wants.", ("outcome",)
        )
        self._is_good = make.gauge(
            "last_profile_change_successful",
            "Whether the last change could be applied; 1 before the first one.",
        )
        self._good = make.gauge(
            "last_profile_change_success_timestamp_seconds",
            "When a change was applied last; 0 if none was.",
        )
        self._is_good.set(1)
        for outcome in TRIED:
            self._changes.labels(str(outcome))

    def hear(self, happening: Happening) -> None:
        """Counts changes."""
        if not isinstance(happening, ProfileApplied):
            return
        is_good = happening.outcome is Outcome.OK
        self._changes.labels(str(happening.outcome)).inc()
        self._is_good.set(is_good)
        if is_good:
            self._good.set(self._clock())

    def know(self, known: Known) -> None:
        """All series are there from the start."""


class MpsCount:
    """Starts of MPS daemons.

    Args:
        make: makes the metrics.
        resources: tells the label value of a resource.
    """

    def __init__(self, make: Maker, resources: Names) -> None:
        self._name = resources
        self._starts = make.counter(
            "mps_daemon_starts", "Attempts to start an MPS daemon.", ("resource", "outcome")
        )

    def hear(self, happening: Happening) -> None:
        """Counts starts."""
        if isinstance(happening, DaemonStarted):
            labels = self._name(happening.resource), str(happening.outcome)
            self._starts.labels(*labels).inc()

    def know(self, known: Known) -> None:
        """Makes series for each daemon."""
        for resource in map(self._name, known.mps_resources):
            for outcome in TRIED:
                self._starts.labels(resource, str(outcome))
