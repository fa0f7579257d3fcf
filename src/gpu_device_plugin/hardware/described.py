"""One reading of the hardware that serves devices and labels alike.

`Backend.read` tells what devices are made from, `NodeSource.read` what labels are made from. Where
one process makes both, both have to come from one session with the driver: else a GPU that is
lost, or cut into MIG devices, between two readings is offered as one thing and labelled as another.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, fields

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.backend import Backend, NvmlBackend, TegraBackend
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, Inventory, Links, Platform
from gpu_device_plugin.hardware.node_facts import (
    NO_DEVICES,
    CudaSource,
    NodeFacts,
    NodeSource,
    NvmlSource,
    SimulatedSource,
)


@dataclass(frozen=True, slots=True)
class DescribedInventory(Inventory):
    """An inventory, and what labels tell of the same reading."""

    facts: NodeFacts = NO_DEVICES
    """GPUs that were known before and cannot be read any more are not among them."""

    @classmethod
    def of(cls, inventory: Inventory, facts: NodeFacts) -> DescribedInventory:
        """Puts both together."""
        known = {field.name: getattr(inventory, field.name) for field in fields(Inventory)}
        return cls(**known, facts=facts)


class DescribingBackend:
    """A backend whose readings are described.

    Args:
        backend: does all but the reading.
        source: reads what labels need, and with that the inventory.
        reads_apart: whether they ask different libraries, as on a Tegra: labels come from CUDA
            there, and devices are the same whatever that says.
    """

    def __init__(self, backend: Backend, source: NodeSource, *, reads_apart: bool = False) -> None:
        self._backend = backend
        self._source = source
        self._reads_apart = reads_apart

    @property
    def name(self) -> str:
        """The strategy that it stands for."""
        return self._backend.name

    def read(self) -> DescribedInventory:
        """Reads the node, anew each time.

        Raises:
            InitError: there is no driver, or it cannot be used.
        """
        if not self._reads_apart:
            facts = self._source.read()
            return DescribedInventory.of(facts.inventory, facts)
        inventory = self._backend.read()
        try:
            facts = self._source.read()
        except InitError as error:
            facts = NodeFacts(Inventory(inventory.platform), failures=(str(error),))
        return DescribedInventory.of(inventory, facts)

    def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:
        """As the backend does."""
        return self._backend.read_links(inventory, stopped)

    def health_events(self, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:
        """As the backend does."""
        return self._backend.health_events(inventory)

    def problem_of(self, gpu: Gpu) -> str:
        """As the backend does."""
        return self._backend.problem_of(gpu)

    def is_loadable(self) -> bool:
        """As the backend does."""
        return self._backend.is_loadable()


def describe(backend: Backend, driver_root: str) -> Backend:
    """The same backend with readings that are described.

    Args:
        backend: as `discover` or a simulation gives it.
        driver_root: the driver root as this process sees it.
    """
    if isinstance(backend, NvmlBackend):
        source = NvmlSource(backend.detected, driver_root=driver_root, needs_identity=True)
        return DescribingBackend(backend, source)
    if isinstance(backend, TegraBackend):
        return DescribingBackend(backend, CudaSource(), reads_apart=True)
    from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend  # noqa: PLC0415 - seldom

    if isinstance(backend, SimulatedBackend):
        is_tegra = backend.node.profile.platform is Platform.TEGRA
        return DescribingBackend(backend, SimulatedSource(backend), reads_apart=is_tegra)
    return backend


def facts_of(inventory: Inventory | None) -> NodeFacts:
    """What labels tell of a reading; of one that is not described what the inventory holds."""
    if inventory is None:
        return NO_DEVICES
    return inventory.facts if isinstance(inventory, DescribedInventory) else NodeFacts(inventory)
