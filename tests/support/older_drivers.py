"""What a library that lacks newer functions makes of a node, asked in a process of its own.

nvidia-ml-py takes each function from the library that is loaded first, and keeps it.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_device_plugin.hardware.backend import NvmlBackend
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind, Inventory, Links
from gpu_device_plugin.hardware.nvml import read
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts, read_facts
from support import nvmlsim
from support.aio import run
from support.backends import news


@dataclass(frozen=True, slots=True)
class Told:
    """Everything that is asked of NVML."""

    inventory: Inventory
    links: Links
    facts: NvmlFacts
    events: tuple[HealthEvent, ...]


def ask(root: Path, truth: Inventory, events: Path, *lines: str) -> Told:
    """Reads and watches a node below a driver root.

    Args:
        root: holds the library.
        truth: what sysfs and procfs tell of the node.
        events: the file of the library's events.
        lines: the events that happen once it is watched; one health event is awaited for each.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(_ask, root, truth, events, lines).result(timeout=60)


def _ask(root: Path, truth: Inventory, events: Path, lines: tuple[str, ...]) -> Told:
    numa = {gpu.pci_bus_id: gpu.numa_node for gpu in truth.gpus}
    patch = pytest.MonkeyPatch()  # for the life of this process
    patch.setattr(read, "read_numa_node", lambda bus_id, _: numa.get(bus_id))
    patch.setattr(read, "read_mig_minors", lambda: nvmlsim.minors_of(truth))
    backend = NvmlBackend(str(root))

    async def watch() -> tuple[HealthEvent, ...]:
        async with aclosing(news(backend, truth)) as found:
            assert (await anext(found)).kind is HealthKind.MONITOR_READY
            with events.open("a") as file:
                file.writelines(f"{line}\n" for line in lines)
            return tuple([await anext(found) for _ in lines])

    return Told(
        backend.read(),
        backend.read_links(truth, lambda: False),
        read_facts(str(root)),
        run(watch()),
    )
