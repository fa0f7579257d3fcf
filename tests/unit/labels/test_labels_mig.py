from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import time_sliced
from support.inventories import a_gpu, a_mig_device, cut_gpu
from support.labels import facts_of, gfd_config, mps, problems, published

from gpu_device_plugin.hardware.model import Gpu, MigProfile
from gpu_device_plugin.labels.mig import label_profile

SINGLE = gfd_config("single")
MIXED = gfd_config("mixed")


def with_profile(index: int, *profiles: MigProfile) -> Gpu:
    devices = tuple(
        replace(a_mig_device(slot, index), profile=profile) for slot, profile in enumerate(profiles)
    )
    return a_gpu(index, mig_enabled=True, mig_devices=devices)


ME = MigProfile(1, 1, 10, ("me",))
NO_ME = MigProfile(1, 1, 24, (), ("me",))
HALF = MigProfile(1, 3, 20)


@pytest.mark.parametrize(
    ("profile", "wanted"),
    [
        (MigProfile(1, 1, 5), "1g.5gb"),
        (ME, "1g.10gb.me"),
        (MigProfile(2, 2, 48, ("me.all",)), "2g.48gb.me.all"),
        (NO_ME, "1g.24gb-me"),
        (HALF, "1c.3g.20gb"),
    ],
)
def test_profiles_stand_in_keys_and_products(profile: MigProfile, wanted: str) -> None:
    labels = published(MIXED, facts_of([with_profile(0, profile)]))

    assert label_profile(profile) == wanted
    assert labels[f"mig-{wanted}.count"] == "1"
    assert labels[f"mig-{wanted}.product"] == f"NVIDIA-A100-SXM4-40GB-MIG-{wanted}"


def test_profiles_with_extras_are_counted_apart() -> None:
    labels = published(MIXED, facts_of([with_profile(0, MigProfile(1, 1, 10), ME, ME)]))

    assert (labels["mig-1g.10gb.count"], labels["mig-1g.10gb.me.count"]) == ("1", "2")


def test_empty_gpus_do_not_matter_under_mixed() -> None:
    labels = published(MIXED, facts_of([cut_gpu(0), cut_gpu(1, 3), a_gpu(2)]))

    assert [key for key in labels if key.endswith(".count")] == ["gpu.count", "mig-3g.20gb.count"]
    assert labels["gpu.count"] == "3"


def test_every_profile_has_its_own_sharing() -> None:
    config = gfd_config("mixed", time_sliced(2, name="nvidia.com/mig-3g.20gb"))
    labels = published(config, facts_of([cut_gpu(0, 3, 1)]))

    assert labels["mig-3g.20gb.replicas"] == "2"
    assert labels["mig-3g.20gb.product"].endswith("-MIG-3g.20gb-SHARED")
    assert labels["mig-1g.5gb.replicas"] == "1"
    assert labels["mig-1g.5gb.sharing-strategy"] == "none"


@pytest.mark.parametrize(
    ("gpus", "reason"),
    [
        ([cut_gpu(0, 1), cut_gpu(1)], "GPU 1 has MIG enabled, but no MIG devices"),
        ([cut_gpu(0, 1), a_gpu(1)], "not on GPU 1"),
        ([cut_gpu(0, 1), cut_gpu(1, 2)], "several profiles: 1g.5gb, 2g.10gb"),
    ],
)
def test_an_uneven_node_is_invalid_under_single_and_says_why(gpus: list[Gpu], reason: str) -> None:
    facts = facts_of(gpus)
    labels = published(SINGLE, facts)

    assert labels["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-INVALID"
    assert labels["gpu.sharing-strategy"] == ""
    assert [labels[f"gpu.{key}"] for key in ("count", "replicas", "memory")] == ["0"] * 3
    assert labels["gpu.family"] == "ampere"
    assert reason in problems(SINGLE, facts)


def test_the_first_gpu_that_is_cut_names_the_product() -> None:
    gpus = [a_gpu(0, name="Tesla T4"), cut_gpu(1, 1), replace(cut_gpu(2, 2), name="Other")]

    assert published(SINGLE, facts_of(gpus))["gpu.product"] == "NVIDIA-A100-SXM4-40GB-MIG-INVALID"


@pytest.mark.parametrize("mig", ["single", "mixed"])
def test_mig_devices_that_cannot_be_read_cost_only_what_tells_of_them(mig: str) -> None:
    problem = "Insufficient Permissions (MIG monitoring is not permitted)"
    gpus = [a_gpu(0, mig_enabled=True, mig_problem=problem), cut_gpu(1, 1)]
    facts = facts_of(gpus)
    labels = published(gfd_config(mig), facts)

    assert labels["mig.strategy"] == mig
    assert labels["gpu.family"] == "ampere"
    assert not any(key.startswith("mig-") for key in labels)
    assert ("gpu.count" in labels) == (mig == "mixed")
    assert f"MIG devices cannot be read: {problem}" in problems(gfd_config(mig), facts)


def test_they_do_not_matter_without_a_strategy() -> None:
    facts = facts_of([a_gpu(0, mig_enabled=True, mig_problem="Insufficient Permissions")])

    assert published(gfd_config(), facts)["gpu.replicas"] == "0"
    assert not problems(gfd_config(), facts)


@pytest.mark.parametrize("mig", ["none", "", "something"])
def test_any_other_strategy_gives_no_labels_of_its_own(mig: str) -> None:
    labels = published(gfd_config(mig), facts_of([cut_gpu(0, 1)]))

    assert not any(key.startswith("mig-") for key in labels)
    assert "mig.strategy" not in labels


def test_mps_and_mig_do_not_go_together() -> None:
    config = gfd_config("single", mps(4))
    facts = facts_of([cut_gpu(0, 7)])
    labels = published(config, facts)

    assert labels["mps.capable"] == "false"
    assert labels["gpu.count"] == "1"
    assert "sharing.mps cannot be used on this node" in problems(config, facts)


def test_mps_is_not_promised_while_a_mig_mode_is_not_known() -> None:
    config = gfd_config(sharing=mps(4))
    unknown = a_gpu(0, mig_capable=False, mig_problem="Unknown Error")

    assert "mps.capable" not in published(config, facts_of([unknown]))
