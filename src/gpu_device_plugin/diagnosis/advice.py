"""What works by the rules of the programs, but does nothing on any node, or fails on every one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import MigStrategy, ReplicatedResources
from gpu_device_plugin.config.names import PREFIX
from gpu_device_plugin.config.text import closest, quote

Advice = tuple[Place, str, str]
"""Place, message and hint."""

GPU = PREFIX + "gpu"
MIG_NAME = re.compile(rf"{PREFIX}mig-(?:[0-9]+c\.)?[0-9]+g\.[0-9]+gb(?:\.[a-z0-9.]+)?")
"""Names of resources under the MIG strategy ``mixed``."""
MOST_CLIENTS = 48
"""Of one GPU, from Volta on (NVIDIA MPS documentation, "Volta MPS")."""


def advice_on(loaded: Loaded) -> Iterator[Advice]:
    """What is probably a mistake."""
    sharing = loaded.config.sharing
    sections = [("sharing.timeSlicing", sharing.time_slicing)]
    if sharing.mps is not None:
        sections = [("sharing.mps", sharing.mps)]
    for path, section in sections:
        yield from _names(loaded, path, section)
        yield from _repeated(loaded, path, section)
    if sharing.mps is not None:
        yield from _clients(loaded, sharing.mps)


def _names(loaded: Loaded, path: str, section: ReplicatedResources) -> Iterator[Advice]:
    """Resources that no node has: all are known unless names are given by the file."""
    if loaded.config.extensions.honour_names and loaded.config.resources.gpus:
        return
    said = loaded.origin("flags.migStrategy")
    for number, entry in enumerate(section.resources):
        place = _place(loaded, f"{path}.resources[{number}].name")
        if MIG_NAME.fullmatch(entry.name):
            strategy = loaded.config.flags.mig_strategy
            if said is not None and strategy != MigStrategy.MIXED:
                message = f"no node has {entry.name} with the MIG strategy {quote(strategy or '')}"
                yield place, f"without effect: {message}", "it needs migStrategy: mixed"
        elif entry.name != GPU and not loaded.config.resources.mig:
            near = closest(entry.name, [GPU])
            hint = f"did you mean {near}?" if near else f"there are {GPU} and those of MIG profiles"
            yield place, f"without effect: no node has a resource {entry.name}", hint


def _repeated(loaded: Loaded, path: str, section: ReplicatedResources) -> Iterator[Advice]:
    seen: dict[str, int] = {}
    for number, entry in enumerate(section.resources):
        if not entry.devices.all:
            continue
        before = seen.setdefault(entry.name, number)
        if before != number:
            place = _place(loaded, f"{path}.resources[{number}]")
            message = f"{entry.name} is shared already by resources[{before}]"
            yield place, message, "of several, the largest number of replicas counts"


def _clients(loaded: Loaded, section: ReplicatedResources) -> Iterator[Advice]:
    for number, entry in enumerate(section.resources):
        if entry.replicas > MOST_CLIENTS:
            place = _place(loaded, f"sharing.mps.resources[{number}].replicas")
            message = f"{entry.replicas} is more than the clients that MPS allows on any GPU"
            yield place, message, f"allowed: at most {MOST_CLIENTS}, and 16 before Volta"


def _place(loaded: Loaded, path: str) -> Place:
    return loaded.origin(path) or Place(loaded.file, path=path)
