"""What the service of labels is to do, as a configuration says."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import Config, GfdFlags
from gpu_device_plugin.config.validate import Origins
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.output import Output

SHORTEST_PAUSE = 0.1
"""Seconds between passes, however short the interval; `sleepInterval: 60` is 60 nanoseconds."""


@dataclass(frozen=True, slots=True)
class Work:
    """All that a configuration comes to."""

    config: Config
    reader: FactReader
    output: Output
    origins: Origins = field(default_factory=dict)
    loaded: Loaded | None = None
    """Where the configuration comes from, for whoever looks at it."""

    @property
    def flags(self) -> GfdFlags:
        """The settings of this program."""
        return self.config.flags.gfd or GfdFlags()

    @property
    def interval(self) -> float | None:
        """Seconds between passes; None for a single pass."""
        nanoseconds = self.flags.sleep_interval
        if nanoseconds is None or nanoseconds >= INFINITE:
            return None
        return max(SHORTEST_PAUSE, nanoseconds / 1e9)


@dataclass(slots=True)
class Pauses:
    """The pauses before something is tried again."""

    driver: Backoff = field(default_factory=lambda: Backoff(first=1.0))
    output: Backoff = field(default_factory=Backoff)
