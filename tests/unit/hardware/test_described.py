"""One reading for devices and labels."""

from __future__ import annotations

import pytest
from support.aio import run
from support.backends import ToldBackend
from support.inventories import a_gpu, a_node

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware import described as module
from gpu_device_plugin.hardware.backend import NvmlBackend, TegraBackend
from gpu_device_plugin.hardware.described import (
    DescribedInventory,
    DescribingBackend,
    describe,
    facts_of,
)
from gpu_device_plugin.hardware.model import (
    HealthEvent,
    HealthKind,
    Inventory,
    Links,
    Platform,
    UnreadableGpu,
)
from gpu_device_plugin.hardware.node_facts import NO_DEVICES, CudaSource, NodeFacts, NvmlSource
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend


class ToldSource:
    """Facts as told; how often they were read."""

    name = "told"

    def __init__(self, facts: NodeFacts | InitError) -> None:
        self.facts = facts
        self.count = 0

    def read(self) -> NodeFacts:
        self.count += 1
        if isinstance(self.facts, InitError):
            raise self.facts
        return self.facts


def test_devices_and_labels_come_from_one_reading():
    facts = NodeFacts(a_node(3), pci_classes={0: 5}, failures=("a lack",))
    source = ToldSource(facts)
    inventory = DescribingBackend(ToldBackend(InitError("not to be read")), source).read()
    assert inventory.gpus == a_node(3).gpus
    assert inventory.facts is facts
    assert facts_of(inventory) is facts
    assert source.count == 1


def test_a_gpu_that_is_lost_stays_a_device_and_is_no_longer_labelled():
    before = DescribedInventory.of(a_node(2), NodeFacts(a_node(2)))
    there = Inventory(Platform.NVML, (a_gpu(0),), (UnreadableGpu(1, "fell off the bus"),))
    now = DescribedInventory.of(there, NodeFacts(there)).keeping_lost(before)
    assert [gpu.lost for gpu in now.gpus] == ["", "fell off the bus"]
    assert isinstance(now, DescribedInventory)
    assert facts_of(now).inventory == there
    assert now != before
    assert now == DescribedInventory.of(there, NodeFacts(there)).keeping_lost(now)


def test_what_only_labels_tell_makes_another_inventory():
    one = DescribedInventory.of(a_node(1), NodeFacts(a_node(1)))
    assert one != DescribedInventory.of(a_node(1), NodeFacts(a_node(1), machine="another"))
    assert one == DescribedInventory.of(a_node(1), NodeFacts(a_node(1)))


def test_a_driver_that_cannot_be_used_is_an_error_of_the_reading():
    backend = DescribingBackend(ToldBackend(a_node(1)), ToldSource(InitError("no driver")))
    with pytest.raises(InitError, match="no driver"):
        backend.read()


def test_labels_of_a_tegra_come_from_another_library_which_may_be_missing():
    tegra = Inventory(Platform.TEGRA)
    facts = NodeFacts(Inventory(Platform.TEGRA, (a_gpu(0),)))
    inventory = DescribingBackend(ToldBackend(tegra), ToldSource(facts), reads_apart=True).read()
    assert inventory.gpus == ()
    assert inventory.facts is facts
    broken = ToldSource(InitError("no CUDA"))
    inventory = DescribingBackend(ToldBackend(tegra), broken, reads_apart=True).read()
    assert inventory.facts == NodeFacts(tegra, failures=("no CUDA",))


def test_everything_else_is_the_backends():
    links = Links({(0, 1): 10})
    told = ToldBackend(a_node(2), links)
    told.problems = {"GPU-0": "it is warm"}
    told.queue.put_nowait(HealthEvent(HealthKind.MONITOR_READY))
    backend = DescribingBackend(told, ToldSource(NodeFacts(a_node(2))))
    assert backend.name == "told"
    assert backend.read_links(a_node(2), lambda: False) is links
    assert backend.problem_of(a_gpu(0)) == "it is warm"
    assert backend.is_loadable()

    async def work():
        events = backend.health_events(a_node(2))
        assert (await anext(events)).kind is HealthKind.MONITOR_READY
        await events.aclose()

    run(work())
    assert told.closed


def test_every_backend_has_its_source():
    nvml = describe(NvmlBackend("/driver", Platform.WSL), "/driver")
    assert isinstance(nvml, DescribingBackend)
    assert isinstance(nvml._source, NvmlSource)
    assert nvml._source._detected is Platform.WSL
    tegra = describe(TegraBackend("/"), "/")
    assert isinstance(tegra, DescribingBackend)
    assert isinstance(tegra._source, CudaSource)
    assert tegra._reads_apart
    told = ToldBackend(a_node(1))
    assert describe(told, "/") is told


@pytest.mark.parametrize(
    ("profile", "devices", "labelled"), [("t4x4", 4, 4), ("jetson-orin", 0, 1)]
)
def test_a_simulated_node_is_described(profile: str, devices: int, labelled: int):
    backend = describe(SimulatedBackend.from_profile(profile), "/")
    inventory = backend.read()
    assert len(inventory.gpus) == devices
    assert len(facts_of(inventory).inventory.gpus) == labelled
    assert inventory == backend.read()


def test_nothing_is_known_of_what_was_not_read():
    assert facts_of(None) is NO_DEVICES
    assert facts_of(a_node(1)) == NodeFacts(a_node(1))
    assert module.facts_of(a_node(0)).has_devices is False


@pytest.mark.parametrize("failing", ["nvmlDeviceGetUUID", "nvmlDeviceGetMinorNumber"])
def test_a_gpu_that_cannot_be_handed_out_is_not_made_up_for_its_labels(nvml_node, failing):
    node = nvml_node("t4x4", f"fail {failing}@2 4")

    inventory = describe(node.backend, str(node.root)).read()

    assert [gpu.index for gpu in inventory.gpus] == [0, 1, 3]
    assert facts_of(inventory).inventory.gpus == inventory.gpus
