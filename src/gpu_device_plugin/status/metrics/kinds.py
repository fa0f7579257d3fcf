"""What counters have in common: how they are made, what they hear, which series they begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import CollectorRegistry

from gpu_device_plugin.telemetry import Happening

NAMESPACE = "gpu_node"
"""What every name of our own begins with."""

Clock = Callable[[], float]
"""Tells seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Known:
    """Label values that counters have from the start."""

    resources: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    """Indices."""
    mps_resources: tuple[str, ...] = ()


class Count(Protocol):
    """The counters of one thing.

    A counter is there with 0 as soon as its labels are known, since a query for an increase does
    not see a series that begins with 1.
    """

    def hear(self, happening: Happening) -> None:
        """Counts what is told, if it is about this thing."""
        ...

    def know(self, known: Known) -> None:
        """Makes series for labels that are known."""
        ...


class Maker:
    """Makes metrics under our namespace, in a registry of our own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """A counter; ``_total`` is added to its name."""
        return Counter(name, text, labels, namespace=NAMESPACE, registry=self._registry)

    def gauge(self, name: str, text: str) -> Gauge:
        """A gauge without labels."""
        return Gauge(name, text, namespace=NAMESPACE, registry=self._registry)

    def histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> Histogram:
        """A histogram with these upper limits of buckets, in seconds."""
        return Histogram(
            name, text, labels, namespace=NAMESPACE, registry=self._registry, buckets=buckets
        )
