from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.inventories import a_gpu, a_node
from support.labels import facts_of, gfd_config, is_label_value, node_of, problems, published

from gpu_device_plugin.hardware.fabric import Fabric
from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.hardware.vgpu import HostDriver, Vgpus
from gpu_device_plugin.labels.model import Facts

CONFIG = gfd_config()


def versions(driver: str, cuda: int = 12040, platform: Platform = Platform.NVML) -> dict[str, str]:
    inventory = replace(
        a_node(1), driver_version=driver, cuda_driver_version=cuda, platform=platform
    )
    labels = published(CONFIG, facts_of(inventory))
    return {key: value for key, value in labels.items() if key.startswith("cuda.")}


def test_a_driver_of_two_parts_has_an_empty_revision() -> None:
    labels = versions("575.57")

    assert labels["cuda.driver-version.full"] == "575.57"
    assert labels["cuda.driver-version.revision"] == ""
    assert labels["cuda.driver.rev"] == ""


@pytest.mark.parametrize("driver", ["", "575", "1.2.3.4", "a b", "550.54.15.1"])
def test_a_version_that_is_none_gives_no_labels(driver: str) -> None:
    labels = versions(driver)

    assert not any("driver" in key for key in labels)
    assert labels["cuda.runtime-version.full"] == "12.4"


def test_a_cuda_version_that_is_not_told_gives_no_labels() -> None:
    labels = versions("550.54.15", 0)

    assert not any("runtime" in key for key in labels)
    assert labels["cuda.driver-version.major"] == "550"


@pytest.mark.parametrize(
    ("version", "wanted"), [(12040, "12.4"), (12100, "12.10"), (9020, "9.2"), (13000, "13.0")]
)
def test_the_cuda_version_is_taken_apart(version: int, wanted: str) -> None:
    labels = versions("550.54.15", version)

    assert labels["cuda.runtime-version.full"] == wanted
    assert (
        labels["cuda.runtime-version.major"],
        labels["cuda.runtime-version.minor"],
    ) == tuple(wanted.split("."))
    assert labels["cuda.runtime.major"] == labels["cuda.runtime-version.major"]
    assert labels["cuda.runtime.minor"] == labels["cuda.runtime-version.minor"]


@pytest.mark.parametrize("platform", [Platform.TEGRA, Platform.VFIO])
def test_where_no_driver_tells_its_version_it_is_unknown(platform: Platform) -> None:
    labels = versions("", 12060 if platform is Platform.TEGRA else 0, platform)

    assert labels["cuda.driver-version.full"] == "unknown.unknown.unknown"
    assert labels["cuda.driver.rev"] == "unknown"
    expected = "12.6" if platform is Platform.TEGRA else "0.0"
    assert labels["cuda.runtime-version.full"] == expected


@given(st.text(max_size=80), st.integers(-5, 2**31 - 1))
def test_whatever_the_versions_all_values_are_labels(driver: str, cuda: int) -> None:
    labels = versions(driver, cuda)

    assert all(map(is_label_value, labels.values()))
    assert ("cuda.driver-version.full" in labels) <= (driver.count(".") in {1, 2})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("  My  Machine (rev. 2)/x \n", "My-Machine-rev.-2x"),
        ("", ""),
        ("PowerEdge R740xd\n", "PowerEdge-R740xd"),
        ("a" * 80, "a" * 63),
        (None, "unknown"),
    ],
)
def test_the_machine_type_is_sanitised(text: str | None, wanted: str) -> None:
    assert published(CONFIG, facts_of(1, machine=text))["gpu.machine"] == wanted


def test_a_machine_type_of_signs_only_is_left_out() -> None:
    facts = facts_of(1, machine="---")

    assert "gpu.machine" not in published(CONFIG, facts)
    assert "left out: nvidia.com/gpu.machine='---'" in problems(CONFIG, facts)


@pytest.mark.parametrize(
    ("classes", "wanted"),
    [
        ([0x030000], "graphics"),
        ([0x030200, 0x030200], "compute"),
        ([0x030000, 0x030200], "unknown"),
        ([0x038000], "unknown"),
        ([0], "unknown"),
        ([None], "unknown"),
        ([None, 0x030200], "unknown"),
    ],
)
def test_the_mode_follows_from_the_pci_classes(classes: list[int | None], wanted: str) -> None:
    node = replace(node_of(a_node(len(classes))), pci_classes=dict(enumerate(classes)))

    assert published(CONFIG, Facts(node))["gpu.mode"] == wanted


ONE = Fabric("5f4dcc3b-5aa7-65d6-1d83-27deb882cf99", 32766)
TWO = Fabric("5f4dcc3b-5aa7-65d6-1d83-27deb882cf99", 4)
THREE = Fabric("00000000-5aa7-65d6-1d83-27deb882cf99", 32766)


@pytest.mark.parametrize(
    ("fabrics", "wanted"),
    [
        ({}, None),
        ({0: ONE, 1: ONE}, "5f4dcc3b-5aa7-65d6-1d83-27deb882cf99.32766"),
        ({1: ONE}, "5f4dcc3b-5aa7-65d6-1d83-27deb882cf99.32766"),
        ({0: ONE, 1: TWO}, None),
        ({0: ONE, 1: THREE}, None),
    ],
)
def test_the_clique_is_that_of_all_attached_gpus(
    fabrics: dict[int, Fabric], wanted: str | None
) -> None:
    node = replace(node_of(a_node(2)), fabrics=fabrics)

    assert published(CONFIG, Facts(node)).get("gpu.clique") == wanted


def test_the_clique_is_not_told_while_a_gpu_does_not_say_its_own() -> None:
    node = replace(node_of(a_node(2)), fabrics={0: ONE}, fabric_is_known=False)

    assert "gpu.clique" not in published(CONFIG, Facts(node))


def vgpu_labels(vgpus: Vgpus | None) -> dict[str, str]:
    labels = published(CONFIG, facts_of(0, vgpus=vgpus, vgpu_problem="" if vgpus else "no PCI"))
    return {key.removeprefix("vgpu."): value for key, value in labels.items()}


def test_a_vgpu_tells_the_driver_of_its_host() -> None:
    found = Vgpus(present=True, host_driver=HostDriver("460.16", "r460_00"))

    assert vgpu_labels(found) == {
        "present": "true",
        "host-driver-version": "460.16",
        "host-driver-branch": "r460_00",
    }


def test_without_a_readable_record_there_are_no_vgpu_labels() -> None:
    assert vgpu_labels(Vgpus(present=True, problem="no record")) == {}
    assert vgpu_labels(None) == {}


@given(st.text(max_size=10), st.text(max_size=10))
def test_whatever_a_host_calls_its_driver_the_values_are_labels(version: str, branch: str) -> None:
    labels = vgpu_labels(Vgpus(present=True, host_driver=HostDriver(version, branch)))

    assert labels["present"] == "true"
    assert all(map(is_label_value, labels.values()))
    assert "" not in labels.values()


def test_the_compute_capability_of_vfio_is_kept_although_it_is_no_label() -> None:
    inventory = replace(a_node([a_gpu(0, compute_capability=(-1, -1))]), platform=Platform.VFIO)
    labels = published(CONFIG, facts_of(inventory))

    assert (labels["gpu.compute.major"], labels["gpu.compute.minor"]) == ("-1", "-1")
    assert labels["gpu.memory"] == str(40 << 30)
