from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.configs import time_sliced
from support.inventories import a_gpu, a_node, cut_gpu
from support.labels import facts_of, gfd_config, problems, published

from gpu_device_plugin.config.model import Extensions, GpuSelection, GpuSharing, SharingStrategy
from gpu_device_plugin.hardware.model import Gpu, Platform, UnreadableGpu
from gpu_device_plugin.labels.gpus import family, memory_label
from gpu_device_plugin.labels.model import Facts

CONFIG = gfd_config()
OTHER = {"name": "Tesla T4", "memory_bytes": 15360 << 20, "compute_capability": (7, 5)}


def of_gpus(facts: Facts, sharing: int = 0) -> dict[str, str]:
    config = gfd_config(sharing=time_sliced(sharing)) if sharing else CONFIG
    return {
        key.removeprefix("gpu."): value
        for key, value in published(config, facts).items()
        if key.startswith("gpu.")
    }


FAMILIES = [
    ((1, 3), "tesla"),
    ((2, 0), "fermi"),
    ((3, 0), "kepler"),
    ((3, 7), "kepler"),
    ((4, 0), "undefined"),
    ((5, 2), "maxwell"),
    ((6, 1), "pascal"),
    ((7, 0), "volta"),
    ((7, 4), "volta"),
    ((7, 5), "turing"),
    ((8, 0), "ampere"),
    ((8, 8), "ampere"),
    ((8, 9), "ada-lovelace"),
    ((9, 0), "hopper"),
    ((10, 3), "blackwell"),
    ((11, 0), "undefined"),
    ((12, 0), "blackwell"),
    ((13, 1), "rubin"),
    ((14, 0), "undefined"),
    ((-1, -1), "undefined"),
]


@pytest.mark.parametrize(("compute", "wanted"), FAMILIES)
def test_the_family_follows_from_the_compute_capability(
    compute: tuple[int, int], wanted: str
) -> None:
    labels = of_gpus(facts_of([a_gpu(0, compute_capability=compute)]))

    assert labels["family"] == wanted
    assert (labels["compute.major"], labels["compute.minor"]) == tuple(map(str, compute))


@given(st.integers(-2, 99), st.integers(-2, 99))
def test_every_compute_capability_has_a_family(major: int, minor: int) -> None:
    assert family(major, minor).replace("-", "").isalpha()


def test_a_compute_capability_of_zero_is_none() -> None:
    labels = of_gpus(facts_of([a_gpu(0, compute_capability=(0, 0))]))

    assert not {"family", "compute.major", "compute.minor"} & set(labels)


@given(st.integers(0, 2**50))
def test_memory_is_in_whole_mib_rounded_down(size: int) -> None:
    label = memory_label(size, Platform.NVML)

    assert label * 2**20 <= size < (label + 1) * 2**20
    assert memory_label(size, Platform.VFIO) == size


def test_memory_that_is_not_told_gives_no_label() -> None:
    assert "memory" not in of_gpus(facts_of([a_gpu(0, memory_bytes=0)]))
    assert "memory" in of_gpus(facts_of([a_gpu(0), a_gpu(1, memory_bytes=0)]))


def test_a_compute_capability_that_cannot_be_read_costs_its_labels_only() -> None:
    facts = facts_of([a_gpu(0, compute_capability=None), a_gpu(1, compute_capability=None)])
    labels = of_gpus(facts)

    assert labels["product"] == "NVIDIA-A100-SXM4-40GB"
    assert "family" not in labels
    assert "no compute capability can be read of GPU 0, 1" in problems(CONFIG, facts)


class TestSeveralModels:
    def test_the_first_gpu_decides(self) -> None:
        facts = facts_of([a_gpu(0), a_gpu(1, **OTHER), a_gpu(2, **OTHER)])
        labels = of_gpus(facts)

        assert labels["product"] == "NVIDIA-A100-SXM4-40GB"
        assert labels["count"] == "1"
        assert labels["family"] == "ampere"
        assert "1 x NVIDIA A100-SXM4-40GB, 2 x Tesla T4" in problems(CONFIG, facts)

    def test_gpus_that_are_not_cut_come_before_those_that_are(self) -> None:
        labels = of_gpus(facts_of([cut_gpu(0, 1), a_gpu(1, **OTHER)]))

        assert labels["product"] == "Tesla-T4"
        assert (labels["count"], labels["replicas"]) == ("1", "1")

    def test_labels_of_models_are_not_mixed(self) -> None:
        labels = of_gpus(facts_of([a_gpu(0, memory_bytes=0), a_gpu(1, **OTHER)]))

        assert "memory" not in labels


class TestMig:
    def test_gpus_that_are_cut_count_but_have_no_replicas(self) -> None:
        labels = of_gpus(facts_of([cut_gpu(0, 7), cut_gpu(1, 7)]), sharing=3)

        assert labels["count"] == "2"
        assert labels["replicas"] == "0"
        assert labels["sharing-strategy"] == "none"
        assert labels["product"] == "NVIDIA-A100-SXM4-40GB"

    def test_one_gpu_that_is_not_cut_decides_for_its_model(self) -> None:
        labels = of_gpus(facts_of([cut_gpu(0, 7), a_gpu(1)]), sharing=3)

        assert labels["count"] == "2"
        assert labels["replicas"] == "3"
        assert labels["product"] == "NVIDIA-A100-SXM4-40GB-SHARED"


class TestUnknownMigMode:
    LOST = a_gpu(0, mig_capable=False, mig_problem="Unknown Error")

    def test_what_depends_on_it_is_left_out(self) -> None:
        labels = published(gfd_config(sharing=time_sliced(3)), facts_of([self.LOST]))

        assert not {
            "gpu.product",
            "gpu.replicas",
            "gpu.sharing-strategy",
            "mig.capable",
        } & set(labels)
        assert (labels["gpu.count"], labels["gpu.memory"]) == ("1", "40960")
        assert labels["gpu.family"] == "ampere"

    def test_without_sharing_the_product_stands(self) -> None:
        labels = of_gpus(facts_of([self.LOST]))

        assert labels["product"] == "NVIDIA-A100-SXM4-40GB"
        assert "replicas" not in labels

    def test_what_another_gpu_settles_stands(self) -> None:
        facts = facts_of([self.LOST, a_gpu(1)])
        labels = published(CONFIG, facts)

        assert labels["gpu.replicas"] == "1"
        assert labels["mig.capable"] == "true"
        assert "the MIG mode of a GPU cannot be read: Unknown Error" in problems(CONFIG, facts)


def test_gpus_that_cannot_be_read_do_not_count_but_are_devices() -> None:
    inventory = replace(a_node(2), unreadable=(UnreadableGpu(2, "GPU is lost"),))
    assert of_gpus(facts_of(inventory))["count"] == "2"

    labels = published(CONFIG, facts_of(replace(inventory, gpus=())))
    assert labels["cuda.driver.major"] == "550"
    assert labels["gpu.machine"] == "Machine"
    assert not {"gpu.count", "gpu.product", "mig.capable"} & set(labels)


def test_a_name_that_no_label_can_show_costs_the_product_only() -> None:
    facts = facts_of([a_gpu(0, name="英伟达显卡")])

    assert "product" not in of_gpus(facts)
    assert of_gpus(facts)["count"] == "1"
    assert "'英伟达显卡' has nothing that a label can show" in problems(CONFIG, facts)


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_only_the_entry_of_that_very_name_counts(name: str) -> None:
    config = gfd_config(sharing=time_sliced(3, name=name))
    labels = published(config, facts_of(1))

    assert labels["gpu.replicas"] == ("3" if name == "nvidia.com/gpu" else "1")


GPUS = st.lists(
    st.builds(
        lambda index, name, cut, memory: replace(
            cut_gpu(index, 1) if cut else a_gpu(index), name=name, memory_bytes=memory
        ),
        st.integers(0, 15),
        st.sampled_from(["NVIDIA A100", "Tesla T4", "\0", "X" * 80]),
        st.booleans(),
        st.sampled_from([0, 1, 40 << 30]),
    ),
    max_size=6,
    unique_by=lambda gpu: gpu.index,
)


@given(GPUS)
def test_whatever_the_gpus_the_order_of_reading_does_not_change_the_count(gpus: list[Gpu]) -> None:
    labels = published(CONFIG, facts_of(gpus))

    if gpus:
        assert 1 <= int(labels["gpu.count"]) <= len(gpus)
    else:
        assert labels == {"vgpu.present": "false"}


class TestOurOwnSettings:
    """What labels tell where extensions decide: what nvidia-device-plugin offers."""

    GPUS = (a_gpu(0), a_gpu(1), a_gpu(2, **OTHER))

    def labels(self, extensions: Extensions, gpus: tuple[Gpu, ...] = GPUS) -> dict[str, str]:
        config = replace(gfd_config("mixed"), extensions=extensions)
        return published(config, facts_of(gpus))

    def test_gpus_that_are_left_out_do_not_count(self) -> None:
        labels = self.labels(Extensions(gpus=GpuSelection(exclude=("0", "1"))))

        assert labels["gpu.product"] == "Tesla-T4"
        assert labels["gpu.count"] == "1"

    def test_an_entry_for_single_gpus_decides(self) -> None:
        entry = GpuSharing(SharingStrategy.TIME_SLICING, gpus=("0", "1"), replicas=3)
        labels = self.labels(Extensions(sharing=(entry,)), self.GPUS[:2])

        assert labels["gpu.replicas"] == "3"
        assert labels["gpu.sharing-strategy"] == "time-slicing"
        assert labels["gpu.product"].endswith("-SHARED")
        assert labels["mps.capable"] == "false"

    def test_several_ways_of_sharing_are_told(self) -> None:
        entry = GpuSharing(
            SharingStrategy.TIME_SLICING, gpus=("0",), replicas=3, rename="nvidia.com/part"
        )
        config = replace(gfd_config(), extensions=Extensions(sharing=(entry,)))
        facts = facts_of(self.GPUS[:2])

        assert published(config, facts)["gpu.replicas"] == "3"
        assert "GPUs are shared in several ways" in problems(config, facts)

    def test_a_renamed_resource_is_not_marked_and_mps_is_told(self) -> None:
        entry = GpuSharing(SharingStrategy.MPS, gpus=("0",), replicas=4, rename="nvidia.com/part")
        labels = self.labels(Extensions(sharing=(entry,)), (a_gpu(0), cut_gpu(1, 3)))

        assert labels["gpu.product"] == "NVIDIA-A100-SXM4-40GB"
        assert (labels["gpu.replicas"], labels["gpu.sharing-strategy"]) == ("4", "mps")
        assert labels["mps.capable"] == "true"
        assert labels["mig-3g.20gb.replicas"] == "1"

    def test_profiles_are_shared_by_their_entry(self) -> None:
        entry = GpuSharing(SharingStrategy.TIME_SLICING, mig=("3g.*",), replicas=2)
        labels = self.labels(Extensions(sharing=(entry,)), (cut_gpu(0, 3, 1),))

        assert labels["mig-3g.20gb.replicas"] == "2"
        assert labels["mig-3g.20gb.product"].endswith("-MIG-3g.20gb-SHARED")
        assert labels["mig-1g.5gb.sharing-strategy"] == "none"

    def test_what_cannot_be_offered_has_no_replicas(self) -> None:
        entries = (
            GpuSharing(SharingStrategy.TIME_SLICING, gpus=("0",), replicas=2),
            GpuSharing(SharingStrategy.MPS, gpus=("1",), replicas=2),
        )
        config = replace(gfd_config(), extensions=Extensions(sharing=entries))
        facts = facts_of(self.GPUS[:2])

        assert published(config, facts)["gpu.replicas"] == "0"
        assert "offers nothing with this configuration: " in problems(config, facts)

    @pytest.mark.parametrize("platform", [Platform.TEGRA, Platform.WSL])
    def test_the_one_device_of_some_platforms_stands_for_all(self, platform: Platform) -> None:
        entry = GpuSharing(SharingStrategy.TIME_SLICING, replicas=2)
        config = replace(gfd_config(), extensions=Extensions(sharing=(entry,)))

        labels = published(config, facts_of(replace(a_node(1), platform=platform)))
        assert labels["gpu.replicas"] == "2"
