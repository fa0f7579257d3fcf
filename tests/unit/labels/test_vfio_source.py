from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.labels import gfd_config, published

from gpu_device_plugin.errors import HardwareError, InitError
from gpu_device_plugin.hardware.node_facts import VfioSource
from gpu_device_plugin.hardware.pci import PciFunction, pci_class
from gpu_device_plugin.hardware.pci_names import NAMES, UNKNOWN, product_name
from gpu_device_plugin.labels.model import Facts

MEMORY_32 = "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200"
MEMORY_64 = "0x0000003800000000 0x0000003bffffffff 0x000000000014220c"  # 16 GiB
MEMORY_64B = "0x0000003c00000000 0x0000003c01ffffff 0x000000000014220c"  # 32 MiB
NONE = "0x0000000000000000 0x0000000000000000 0x0000000000000000"


class Bus:
    """A PCI bus in sysfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bus/pci/devices").mkdir(parents=True)

    def add(
        self,
        address: str,
        *,
        driver: str = "vfio-pci",
        device: str = "0x1eb8",
        pci_class: str = "0x030200",
        vendor: str = "0x10de",
        resource: tuple[str, ...] = (MEMORY_32, MEMORY_64, NONE, MEMORY_64B, NONE, NONE, MEMORY_64),
    ) -> Path:
        directory = self.root / "bus/pci/devices" / address
        directory.mkdir()
        for name, text in (("vendor", vendor), ("device", device), ("class", pci_class)):
            (directory / name).write_text(f"{text}\n")
        (directory / "resource").write_text("".join(f"{line}\n" for line in resource))
        if driver:
            os.symlink(f"../../../bus/pci/drivers/{driver}", directory / "driver")
        return directory

    def read(self) -> dict[str, str]:
        return published(gfd_config(), Facts(VfioSource(str(self.root)).read()))


@pytest.fixture
def bus(tmp_path: Path) -> Bus:
    return Bus(tmp_path)


def test_gpus_for_virtual_machines_are_labelled(bus: Bus) -> None:
    bus.add("0000:3b:00.0")
    bus.add("0000:5e:00.0")
    labels = bus.read()

    assert labels["gpu.product"] == "TU104GL-Tesla-T4"
    assert labels["gpu.count"] == "2"
    assert labels["gpu.memory"] == str(32 << 30)
    assert labels["gpu.family"] == "undefined"
    assert labels["gpu.mode"] == "compute"
    assert labels["mig.capable"] == "false"
    assert labels["cuda.runtime-version.full"] == "0.0"


def test_other_functions_do_not_count(bus: Bus) -> None:
    bus.add("0000:01:00.0", driver="nvidia")
    bus.add("0000:02:00.0", driver="")
    bus.add("0000:03:00.0", vendor="0x8086")
    bus.add("0000:04:00.0", pci_class="0x040300")
    virtual = bus.add("0000:05:00.4")
    os.symlink("../0000:05:00.0", virtual / "physfn")

    assert bus.read() == {}
    bus.add("0000:06:00.0", pci_class="0x030000")
    assert bus.read()["gpu.count"] == "1"
    assert bus.read()["gpu.mode"] == "graphics"


@pytest.mark.parametrize(
    ("resource", "memory"),
    [
        ((MEMORY_32,) * 6, None),
        ((), None),
        ((MEMORY_64,), 16 << 30),
        ((MEMORY_64B, MEMORY_64B, MEMORY_64B), 128 << 20),
    ],
)
def test_memory_is_the_next_power_of_two_of_64_bit_registers(
    bus: Bus, resource: tuple[str, ...], memory: int | None
) -> None:
    bus.add("0000:3b:00.0", resource=resource)

    assert bus.read().get("gpu.memory") == (None if memory is None else str(memory))


@pytest.mark.parametrize("missing", ["class", "device", "resource"])
def test_a_gpu_that_cannot_be_read_is_left_out(bus: Bus, missing: str) -> None:
    (bus.add("0000:3b:00.0") / missing).unlink()
    bus.add("0000:5e:00.0")
    facts = VfioSource(str(bus.root)).read()

    assert len(facts.inventory.gpus) == 1
    assert f"0000:3b:00.0/{missing} cannot be read" in facts.failures[0]


@pytest.mark.parametrize("text", ["0x1 0x2\n", "x y z\n", "\xff\n"])
def test_resources_that_are_none_are_told(bus: Bus, text: str) -> None:
    (bus.add("0000:3b:00.0") / "resource").write_text(text)

    with pytest.raises(HardwareError, match="is no base address register"):
        PciFunction(str(bus.root / "bus/pci/devices/0000:3b:00.0")).memory_64_bit()


def test_without_a_pci_bus_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InitError, match="PCI devices cannot be read"):
        VfioSource(str(tmp_path)).read()


def test_the_class_of_a_function_is_found_by_its_address(bus: Bus) -> None:
    bus.add("0000:3b:00.0")
    assert pci_class("0000:3b:00.0", str(bus.root)) == 0x030200
    for address in ("", "0000:ff:00.0"):
        with pytest.raises(HardwareError):
            pci_class(address, str(bus.root))


def test_names_come_from_the_table_then_from_the_system(tmp_path: Path) -> None:
    ids = tmp_path / "pci.ids"
    ids.write_text(
        "# comment\n8086  Intel\n\t9999  Not this\n10de  NVIDIA Corporation\n"
        "\t9999  GX999 [Future X]\n\t\t10de 0001  Board\n10e0  Other\n\t9998  Not this either\n"
    )
    files = (str(tmp_path / "absent"), str(ids))

    assert product_name(0x2330, files) == "GH100 [H100 SXM5 80GB]"
    assert product_name(0x9999, files) == "GX999 [Future X]"
    assert product_name(0x9998, files) == UNKNOWN
    assert product_name(0x9999, ()) == UNKNOWN
    assert all("[" in name for name in NAMES.values())
