"""How labelling is going, for whoever asks: probes, metrics, pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Clock = Callable[[], float]


class LabelRecord:
    """What came of the last pass, and what stands in the way of the next.

    Args:
        clock: seconds since 1970.
        steady: seconds that go on steadily.
    """

    def __init__(self, clock: Clock = time.time, steady: Clock = time.monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._reading_since: float | None = None
        self.published_at = 0.0
        """When the labels were last as they should be, seconds since 1970; 0 for never yet."""
        self.labels: Mapping[str, str] = {}
        """Those that are out, by full key."""
        self.driver_problem = ""
        """Why nothing is known of the GPUs; empty if it is."""
        self.output_problem = ""
        """Why the labels are not out as they should be; empty if they are."""
        self.reload_problem = ""
        """Why the former configuration stays in force; empty if it does not."""
        self.failures: tuple[str, ...] = ()
        """Why labels are missing that there should be."""

    @property
    def seconds_reading(self) -> float:
        """For how long the driver has been asked without an answer; 0 if it is not being asked."""
        return 0.0 if self._reading_since is None else self._steady() - self._reading_since

    def ask(self) -> None:
        """The node is being read from now on."""
        self._reading_since = self._steady()

    def take(self, driver_problem: str, failures: tuple[str, ...]) -> None:
        """The node has been read."""
        self._reading_since = None
        self.driver_problem, self.failures = driver_problem, failures

    def publish(self, labels: Mapping[str, str]) -> None:
        """These labels are out."""
        self.published_at, self.labels, self.output_problem = self._clock(), labels, ""

    def move(self) -> None:
        """Labels are to be published to another place from now on."""
        self.published_at, self.labels = 0.0, {}
