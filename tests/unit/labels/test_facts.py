from __future__ import annotations

from pathlib import Path

import pytest

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.node_facts import NO_DEVICES, NodeFacts, open_source
from gpu_device_plugin.hardware.vgpu import Vgpus
from gpu_device_plugin.labels.facts import FactReader


class Missing:
    name = "nvml"

    def read(self) -> NodeFacts:
        raise InitError("Driver Not Loaded")


def test_a_simulated_node_says_what_its_machine_is_unless_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "type").write_bytes(b"Mine \xff\n")
    source = open_source("", "dgx-a100")

    facts = FactReader(source, "/sys/class/dmi/id/product_name", use_machine_of_source=True).read(1)
    assert facts.machine == "DGXA100 920-23687-2530-000"
    assert facts.vgpus == Vgpus()
    assert facts.timestamp == 1
    assert FactReader(source, str(tmp_path / "type")).read(None).machine == "Mine \ufffd\n"


@pytest.mark.parametrize("name", ["absent", "a\0b", ""])
def test_a_machine_type_that_cannot_be_read_is_unknown(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name) if name else ""
    facts = FactReader(open_source("", "t4x4"), path).read(None)

    assert facts.machine is None
    assert facts.machine_problem.startswith("the machine type cannot be read" if name else "")
    assert ("--machine-type-file" in facts.machine_problem) == bool(name)


def test_a_missing_driver_is_tolerated_only_if_told_so(tmp_path: Path) -> None:
    with pytest.raises(InitError):
        FactReader(Missing(), "").read(None)

    reader = FactReader(Missing(), "", tolerates_no_driver=True, sysfs=str(tmp_path))
    facts = reader.read(None)
    assert facts.node is NO_DEVICES
    assert facts.driver_problem == "Driver Not Loaded"
    assert facts.vgpus is None
    assert "bus/pci/devices cannot be read" in facts.vgpu_problem


def test_the_pci_bus_is_looked_at_for_vgpus(tmp_path: Path) -> None:
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    reader = FactReader(Missing(), "", tolerates_no_driver=True, sysfs=str(tmp_path))

    assert reader.read(None).vgpus == Vgpus(present=False)
