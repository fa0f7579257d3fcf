"""Runs checks one after the other; none of them can end or hold up the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Outcome, not_checked
from gpu_device_plugin.threads import start_thread

PATIENCE_SECONDS = 1.0
"""After so long it is shown what is being waited for."""

Waiting = Callable[[Check | None], None]
"""Told of a check that takes long, and with None when it is over."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A check and what came out."""

    check: Check
    outcome: Outcome
    seconds: float


def run_checks(checks: Iterable[Check], host: Host, waiting: Waiting) -> Iterator[Finished]:
    """Makes the checks, each within its time limit.

    Args:
        checks: in this order.
        host: what is looked at.
        waiting: see `Waiting`.
    """
    for check in checks:
        start = time.monotonic()
        outcome = _within_limit(check, host, waiting)
        yield Finished(check, outcome, time.monotonic() - start)


def _within_limit(check: Check, host: Host, waiting: Waiting) -> Outcome:
    """The outcome of a check; a thread that does not come back is left behind."""
    if check.real and host.simulated:
        return not_checked(
            f"the node is simulated ({one_line(host.simulated)}): nothing to look at"
        )
    outcomes = list[Outcome]()
    thread = start_thread(check.name, lambda: outcomes.append(_guarded(check, host)))
    thread.join(min(PATIENCE_SECONDS, check.seconds))
    if thread.is_alive():
        waiting(check)
        thread.join(max(check.seconds - PATIENCE_SECONDS, 0))
        waiting(None)
    if not outcomes:
        return not_checked(
            f"no result within {check.seconds:g} s: something that it looks at hangs",
            "look for processes in state D: ps -eo pid,stat,wchan:32,args | awk '$2 ~ /D/'",
        )
    return outcomes[0]


def _guarded(check: Check, host: Host) -> Outcome:
    try:
        return check.run(host)
    except Exception as error:  # noqa: BLE001 - a mistake in one check must not hide the others
        text = one_line(str(error)) or "no message"
        return not_checked(
            f"the check itself has failed: {type(error).__name__}: {text}",
            "please report this with the output of gpu-node doctor -o json",
        )
