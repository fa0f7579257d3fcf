"""The status of a program that runs MPS daemons."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.mps.supervisor import MpsSupervisor
from gpu_device_plugin.status.model import Check, MpsStatus
from gpu_device_plugin.status.probes import check

STARTING = "being started"


def mps_daemons(supervisor: MpsSupervisor) -> tuple[MpsStatus, ...]:
    """The daemons that are wanted."""
    return tuple(
        MpsStatus(
            daemon.resource,
            ready=daemon.is_up,
            detail="" if daemon.is_up else daemon.problem or STARTING,
        )
        for daemon in supervisor.observe()
    )


def mps_readiness(supervisor: MpsSupervisor) -> Check:
    """Whether every daemon that is needed runs with its limits, as the file `.ready` tells."""
    return check(_lacks(supervisor))


def _lacks(supervisor: MpsSupervisor) -> Iterator[str]:
    if supervisor.is_ready:
        return
    problem = supervisor.problem or supervisor.mark_problem
    if problem:
        yield problem
    waiting = [daemon for daemon in mps_daemons(supervisor) if not daemon.ready]
    for daemon in waiting:
        yield f"{daemon.resource}: {daemon.detail}"
    if not problem and not waiting:
        yield "it is not known yet which daemons are needed"
