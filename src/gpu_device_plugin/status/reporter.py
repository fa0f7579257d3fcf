"""Puts the status of a program together from its parts, anew for each question."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gpu_device_plugin import __version__
from gpu_device_plugin.logs import LogTail
from gpu_device_plugin.plugin.observation import Observation
from gpu_device_plugin.status.collect import (
    Holders,
    collect_configuration,
    collect_hardware,
    collect_resources,
)
from gpu_device_plugin.status.holders import former_holdings
from gpu_device_plugin.status.model import (
    SCHEMA,
    Check,
    Configuration,
    Labelling,
    LogEvent,
    MpsStatus,
    NodeStatus,
    Pods,
)
from gpu_device_plugin.status.probes import ALIVE, plugin_liveness, plugin_readiness


def _nobody_asks() -> tuple[Pods, Holders | None]:
    return Pods(asked=False), None


@dataclass(slots=True)
class Reporter:
    """Tells the status of one program; what a program lacks is left at its default."""

    program: str
    node: str = ""
    """Name of the node; empty if it is not known."""
    simulated: str = ""
    """The profile of a simulated node; empty for real hardware."""
    tail: LogTail = field(default_factory=LogTail)
    clock: Callable[[], float] = time.time
    observe: Callable[[], Observation] | None = None
    """The plugin's, in programs that have one."""
    pods: Callable[[], tuple[Pods, Holders | None]] = _nobody_asks
    labelling: Callable[[], Labelling | None] = lambda: None
    mps: Callable[[], tuple[MpsStatus, ...]] = lambda: ()
    profile: Callable[[], str] = lambda: ""
    configuration: Callable[[], Configuration | None] = lambda: None
    """In programs without a plugin."""
    live: Callable[[], Check] = lambda: ALIVE
    """In addition to what is asked of the plugin."""
    ready: Callable[[], Check] = lambda: ALIVE
    """In addition to what is asked of the plugin."""
    started: float = 0.0

    def __post_init__(self) -> None:
        """The program has started now."""
        self.started = self.started or self.clock()

    def status(self) -> NodeStatus:
        """Everything that the program knows."""
        seen = self.observe() if self.observe else None
        pods, holders = self.pods()
        hardware = None if seen is None else collect_hardware(seen, self.simulated)
        resources = () if seen is None else collect_resources(seen.resources, holders)
        if holders:
            pods = replace(pods, former=former_holdings(holders, resources, hardware))
        return NodeStatus(
            schema=SCHEMA,
            program=self.program,
            version=__version__,
            node=self.node,
            time=self.clock(),
            started=self.started,
            live=self._liveness(seen),
            ready=self._readiness(seen),
            hardware=hardware,
            resources=resources,
            pods=pods,
            configuration=(
                self.configuration()
                if seen is None
                else collect_configuration(seen, self.profile())
            ),
            labelling=self.labelling(),
            mps=self.mps(),
            events=tuple(
                LogEvent(line.time, line.level, line.source, line.text)
                for line in self.tail.newest()
            ),
        )

    def liveness(self) -> Check:
        """Whether the program lives."""
        return self._liveness(self.observe() if self.observe else None)

    def readiness(self) -> Check:
        """Whether the program does its work."""
        return self._readiness(self.observe() if self.observe else None)

    def _liveness(self, seen: Observation | None) -> Check:
        return _both(self.live(), ALIVE if seen is None else plugin_liveness(seen))

    def _readiness(self, seen: Observation | None) -> Check:
        return _both(self.ready(), ALIVE if seen is None else plugin_readiness(seen))


def _both(one: Check, other: Check) -> Check:
    return Check(one.ok and other.ok, one.reasons + other.reasons)
