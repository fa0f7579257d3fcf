"""The condition of the node that sums its GPUs up, and when it is written.

Type, states and reasons are documented in ``docs/events.md``. Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpu_device_plugin.config.text import count
from gpu_device_plugin.kube.errors import short_line
from gpu_device_plugin.kube.shapes import objects, text
from gpu_device_plugin.reports.model import NodeHealth, Watching
from gpu_device_plugin.reports.notices import LONGEST, gpu_name
from gpu_device_plugin.reports.timestamps import timestamp

CONDITION = "GPUHealthy"
"""Type of the condition."""
HEARTBEAT_SECONDS = 300.0
"""How often a condition that stays the same is written, as the kubelet does with its own."""
MOST_NAMED = 8
"""GPUs that a message names."""


class State(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why it has that status."""

    HEALTHY = "AllGPUsHealthy"
    UNHEALTHY = "GPUsUnhealthy"
    NOT_WATCHED = "GPUsNotWatched"
    NOT_OFFERED = "GPUsNotOffered"
    NO_DRIVER = "DriverNotReady"
    NO_GPUS = "NoGPUs"
    STARTING = "PluginStarting"
    STOPPED = "PluginStopped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition says."""

    state: State
    reason: Reason
    message: str


STOPPED = Verdict(
    State.UNKNOWN, Reason.STOPPED, "the device plugin has ended: nobody watches the GPUs"
)
STARTING = Verdict(State.UNKNOWN, Reason.STARTING, "the GPUs have not been read yet")


def judge(node: NodeHealth) -> Verdict | None:
    """What the condition says of a node; None as long as that is about to be known.

    A GPU that is known to be broken makes it false, whatever else is not known.
    """
    if not node.is_read:
        return None
    broken = list(_broken(node))
    if broken:
        return Verdict(State.FALSE, Reason.UNHEALTHY, _listed(broken))
    unknown = _unknown(node)
    if unknown is not None:
        return Verdict(State.UNKNOWN, unknown[0], short_line(unknown[1], LONGEST))
    if node.watching is Watching.STARTING:
        return None
    gpus = count(len(node.gpus), "GPU")
    return Verdict(State.TRUE, Reason.HEALTHY, f"{gpus} healthy and watched")


def _unknown(node: NodeHealth) -> tuple[Reason, str] | None:
    """Why it cannot be said how the GPUs are doing; None if it can."""
    if node.driver_problem:
        return Reason.NO_DRIVER, f"the driver cannot be used: {node.driver_problem}"
    if not node.gpus:
        return Reason.NO_GPUS, "the driver lists no GPU"
    if node.offer_problem:
        return Reason.NOT_OFFERED, f"nothing is offered: {node.offer_problem}"
    if node.watching is Watching.BLIND:
        return Reason.NOT_WATCHED, "the driver reports nothing on the health of the GPUs"
    if node.watching is Watching.OFF:
        return Reason.NOT_WATCHED, "nobody watches the GPUs, by a setting or on this platform"
    return None


def _broken(node: NodeHealth) -> Iterator[str]:
    for gpu in node.gpus:
        if gpu.problem:
            yield f"GPU {gpu_name(gpu)}: {short_line(gpu.problem, 200)}"
    for index, reason in node.unreadable.items():
        yield f"GPU {index}: cannot be read: {short_line(reason, 200)}"


def _listed(broken: list[str]) -> str:
    more = len(broken) - MOST_NAMED
    rest = [f"and {more} more"] if more > 0 else []
    return short_line("; ".join(broken[:MOST_NAMED] + rest), LONGEST)


class ConditionKeeper:
    """What the node's condition says now, as far as it is known, and whether that is enough."""

    def __init__(self) -> None:
        self._state = ""
        """Status at the node; empty if it has no such condition, or nobody knows."""
        self._since = ""
        """Timestamp of its last transition."""
        self._written: Verdict | None = None
        self._written_at = 0.0

    def learn(self, node: Mapping[str, Any]) -> None:
        """Takes over what a Node object says, so that a restart is no transition."""
        for condition in objects(node, "status", "conditions"):
            if condition.get("type") == CONDITION:
                self._state = text(condition, "status")
                self._since = text(condition, "lastTransitionTime")

    def wait(self, verdict: Verdict, now: float) -> float:
        """Seconds until a verdict has to be written.

        Args:
            verdict: what the condition has to say.
            now: seconds of a clock that never goes back.
        """
        if verdict != self._written:
            return 0.0
        return max(0.0, self._written_at + HEARTBEAT_SECONDS - now)

    def body(self, verdict: Verdict, wall: float) -> dict[str, Any]:
        """The patch of the node's status that says it; other conditions stay as they are.

        Args:
            verdict: what the condition has to say.
            wall: seconds since 1970.
        """
        is_same = verdict.state == self._state and self._since
        condition = {
            "type": CONDITION,
            "status": str(verdict.state),
            "reason": str(verdict.reason),
            "message": verdict.message,
            "lastHeartbeatTime": timestamp(wall),
            "lastTransitionTime": self._since if is_same else timestamp(wall),
        }
        return {"status": {"conditions": [condition]}}

    def written(self, verdict: Verdict, body: Mapping[str, Any], now: float) -> None:
        """The node's condition says that now."""
        (condition,) = body["status"]["conditions"]
        self._state, self._since = condition["status"], condition["lastTransitionTime"]
        self._written, self._written_at = verdict, now
