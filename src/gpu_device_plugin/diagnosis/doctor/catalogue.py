"""All checks of the doctor, and the choice among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpu_device_plugin.config.text import closest, quote
from gpu_device_plugin.diagnosis.doctor import (
    cdi,
    config,
    driver,
    kube,
    kubelet,
    mig,
    mps,
    nvml,
    port,
    rights,
    runtime,
    system,
)
from gpu_device_plugin.diagnosis.doctor.model import Check, Group
from gpu_device_plugin.errors import UsageError

CHECKS: tuple[Check, ...] = (
    *driver.CHECKS,
    *nvml.CHECKS,
    *mig.CHECKS,
    *runtime.CHECKS,
    *cdi.CHECKS,
    *kubelet.CHECKS,
    *port.CHECKS,
    *kube.CHECKS,
    *mps.CHECKS,
    *system.CHECKS,
    *rights.CHECKS,
    *config.CHECKS,
)
"""In the order in which they are made and shown; causes come before what follows from them."""


def choose(only: Collection[str], skip: Collection[str]) -> list[Check]:
    """The checks to make.

    Args:
        only: names of checks or groups; none for all.
        skip: names of checks or groups to leave out.

    Raises:
        UsageError: a name is neither that of a check nor of a group, or nothing is left.
    """
    wanted, left_out = _names(only), _names(skip)
    checks = [c for c in CHECKS if (not only or c.name in wanted) and c.name not in left_out]
    if not checks:
        raise UsageError("no check is left to be made", "see --list")
    return checks


def _names(given: Iterable[str]) -> set[str]:
    found = set[str]()
    groups = {group.name.lower(): group for group in Group}
    names = [check.name for check in CHECKS]
    for word in given:
        if word in names:
            found.add(word)
        elif word.lower() in groups:
            found |= {c.name for c in CHECKS if c.group is groups[word.lower()]}
        else:
            near = closest(word, [*names, *groups])
            hint = f"did you mean {near}?" if near else "see --list"
            raise UsageError(f"there is no check {quote(word)}", hint)
    return found
