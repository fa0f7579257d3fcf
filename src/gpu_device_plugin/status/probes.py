"""Whether a program lives, and whether it does its work: the answers of probes.

Whoever gets an answer knows that the event loop turns. A kubelet that restarts, a broken GPU and
a bad configuration never make the plugin count as dead: a new process would change nothing.

Nor does a driver that does not answer. A thread that the driver holds in the kernel cannot be
ended, so the container could not be stopped, and the next one would be held up at its start, by
then without serving anybody. It is a reason not to be ready.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.plugin.observation import Observation
from gpu_device_plugin.plugin.served import State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.status.model import Check

ALIVE = Check(ok=True)


def check(reasons: Iterator[str]) -> Check:
    """Well, if there is no reason why not."""
    given = tuple(reasons)
    return Check(not given, given)


def plugin_liveness(seen: Observation) -> Check:
    """Whether the health monitor has not died of an error of the program."""
    return check(_deaths(seen))


def _deaths(seen: Observation) -> Iterator[str]:
    if seen.watch is WatchState.FAILED:
        yield "the health monitor has ended by an error; the log has it"


def plugin_readiness(seen: Observation) -> Check:
    """Whether the devices are known, each resource is registered and the kubelet listens.

    A node without GPUs is ready: it does what it has to.
    """
    return check(_lacks(seen))


def _lacks(seen: Observation) -> Iterator[str]:
    if seen.node is None:
        yield "the node has not been read yet"
        return
    if seen.node.init_problem:
        yield f"no devices: {seen.node.init_problem}"
    if seen.offer_problem:
        yield f"nothing is offered: {seen.offer_problem}"
    last = seen.last_reload
    if last is not None and last.error:
        yield f"the new configuration cannot be used: {last.error}"
    if seen.watch is WatchState.BLIND:
        yield "the health of the GPUs is not watched"
    if seen.watch is WatchState.HELD:
        yield "the driver does not answer: the health of the GPUs is not watched"
    for observed in seen.resources:
        name, state = observed.resource.name, observed.state
        if state not in {State.REGISTERED, State.UNREGISTERED}:
            yield f"{name}: {state}"
        elif state is State.REGISTERED and not observed.open_streams:
            yield f"{name}: the kubelet has no stream open"
