"""Profiles of simulated nodes: the built-in ones, files, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.hardware.nvml.mig import make_profile as nvml_profile
from gpu_device_plugin.hardware.simulated.gpus import LEVELS
from gpu_device_plugin.hardware.simulated.model import Profile, Watch
from gpu_device_plugin.hardware.simulated.node import SimulatedNode
from gpu_device_plugin.hardware.simulated.products import load_products
from gpu_device_plugin.hardware.simulated.profile import (
    built_in_names,
    load_profile,
    parse_profile_text,
)


def parse(text: str) -> Profile:
    return parse_profile_text(dedent(text), "node.yaml")


def read(text: str) -> Inventory:
    return SimulatedNode(parse(text)).inventory()


@pytest.mark.parametrize("name", built_in_names())
def test_every_built_in_profile_can_be_loaded(name: str) -> None:
    profile = load_profile(name)

    assert profile.name == name
    assert profile.driver_version
    assert profile.cuda_driver_version > 11000
    count = len(profile.gpus)
    assert [item.gpu.index for item in profile.gpus] == list(range(count))
    assert set(profile.links.ancestors) == {
        (a, b) for a in range(count) for b in range(count) if a != b
    }
    if profile.platform is Platform.NVML:
        assert all(item.gpu.pci_bus_id for item in profile.gpus)


def test_the_built_in_profiles_are_those_that_people_know() -> None:
    known = {"dgx-a100", "hgx-h100", "hgx-b200", "dgx-1", "dgx-2", "t4x4", "l40s", "gh200"}

    assert known | {"a30-mig", "dgx-a100-mig", "no-gpu"} <= set(built_in_names())


def test_a_dgx_a100_has_pairs_on_switches_and_no_links_between_gpus() -> None:
    profile = load_profile("dgx-a100")
    gpus = [item.gpu for item in profile.gpus]

    assert [gpu.numa_node for gpu in gpus] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert gpus[0].pci_bus_id == "00000000:07:00.0"
    assert gpus[0].pci_device_id == 0x20B010DE
    assert gpus[0].memory_bytes == 40 << 30
    assert gpus[0].compute_capability == (8, 0)
    assert gpus[0].mig_capable
    assert not gpus[0].mig_enabled
    assert gpus[0].mig_profiles[-1] == "1g.10gb"
    near = {pair for pair, level in profile.links.ancestors.items() if level == LEVELS["PXB"]}
    assert near == {(a, a ^ 1) for a in range(8)}
    assert not profile.links.nvlinks


def test_a_dgx_1_is_a_mesh_with_six_links_to_every_gpu() -> None:
    links = load_profile("dgx-1").links.nvlinks

    assert all(links[b, a] == count for (a, b), count in links.items())
    for gpu in range(8):
        assert sum(count for (a, _), count in links.items() if a == gpu) == 6
        assert sum(a == gpu for a, _ in links) == 4


def test_a_grace_hopper_shares_the_address_space_of_its_cpu() -> None:
    gpu = load_profile("gh200").gpus[0].gpu

    assert gpu.coherent
    assert gpu.pci_bus_id == "00000009:01:00.0"
    assert gpu.sysfs_id == "0009:01:00.0"


def test_uuids_depend_on_profile_and_index_alone() -> None:
    first = [item.gpu.uuid for item in load_profile("t4x4").gpus]

    assert first == [item.gpu.uuid for item in load_profile("t4x4").gpus]
    others = {item.gpu.uuid for name in built_in_names() for item in load_profile(name).gpus}
    assert len(others) == sum(len(load_profile(name).gpus) for name in built_in_names())


@pytest.mark.parametrize("product", load_products().values(), ids=lambda product: product.name)
def test_mig_profiles_are_called_as_nvml_would_have_them_called(product) -> None:
    memory = product.memory_mib << 20
    for slice_ in product.mig_slices:
        slices = slice_.profile.gpu_slices
        named = nvml_profile(slice_.number, slices, slice_.memory_mib, memory)
        assert str(named) == slice_.name
        assert named == slice_.profile


def test_a_file_can_say_everything() -> None:
    profile = parse("""
        machine: Test
        driver: 500.1
        cuda: 11.4
        events: happenings
        gpus:
          - product: NVIDIA A30
            name: Something else
            uuid: GPU-a
            minor: 7
            memory: 100
            compute: 9.9
            health: unmonitorable
            mig: [2g.12gb:1c+1c, 1g.6gb]
            mig-slots: [1, 4, 5]
          - {product: Tesla T4, count: 2}
        pci: [0009:01:00.0, 0a:00.1, 0B:00.0, 0C:00.0]
        numa: [-1, 3]
        topology: {PIX: [[1, 2]], PHB: [[0, 1, 2, 63]]}
        nvlinks: {1-2: 4, 0-9: 1}
    """)
    first, second, third = (item.gpu for item in profile.gpus)

    assert profile.name == "node"
    assert profile.events_file == "happenings"
    assert profile.cuda_driver_version == 11040
    assert (first.name, first.uuid, first.minor) == ("Something else", "GPU-a", 7)
    assert first.memory_bytes == 100 << 20
    assert first.compute_capability == (9, 9)
    assert profile.gpus[0].watch is Watch.UNMONITORABLE
    assert [g.pci_bus_id for g in (first, second)] == ["00000009:01:00.0", "00000000:0A:00.1"]
    assert [g.numa_node for g in (first, second, third)] == [None, 3, None]
    assert profile.links.ancestors == {
        **dict.fromkeys([(0, 1), (1, 0), (0, 2), (2, 0)], 30),
        **dict.fromkeys([(1, 2), (2, 1)], 10),
    }
    assert profile.links.nvlinks == {(1, 2): 4, (2, 1): 4}
    devices = SimulatedNode(profile).inventory().gpus[0].mig_devices
    assert [(d.slot, str(d.profile)) for d in devices] == [
        (1, "1c.2g.12gb"),
        (4, "1c.2g.12gb"),
        (5, "1g.6gb"),
    ]


def test_an_empty_file_is_a_node_without_gpus() -> None:
    assert not parse("").gpus
    assert not parse("# nothing\n").gpus


def test_a_file_builds_on_another_one(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("base: dgx-1\nmachine: Mine\nevents: ev\n")
    (tmp_path / "node.yaml").write_text("base: ./base.yaml\nnvlinks: null\ncuda: 12.9\n")

    profile = load_profile(str(tmp_path / "node.yaml"))

    assert profile.machine == "Mine"
    assert profile.events_file == str(tmp_path / "ev")
    assert len(profile.gpus) == 8
    assert profile.cuda_driver_version == 12090
    assert not profile.links.nvlinks
    assert profile.gpus[0].gpu.uuid != load_profile("dgx-1").gpus[0].gpu.uuid


def test_files_cannot_build_on_themselves(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")

    with pytest.raises(ConfigError, match=r"b\.yaml:1: base: 'a\.yaml' builds on this very file"):
        load_profile(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dgx-a1000", "there is no simulated node 'dgx-a1000' (allowed: a30-mig, dgx-1,"),
        ("./none.yaml", "none.yaml: the profile cannot be read: No such file or directory"),
        ("/", "/: the profile cannot be read: Is a directory"),
    ],
)
def test_a_profile_that_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_profile(name)

    assert message in str(error.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        load_profile(str(tmp_path / "node.yaml"))
