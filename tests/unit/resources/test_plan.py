"""Which devices a node offers under which names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import a_config, time_sliced
from support.inventories import a_gpu, a_mig_device, a_node, cut_gpu

from gpu_device_plugin.config.model import (
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.hardware.model import Inventory, MigProfile, Platform, UnreadableGpu
from gpu_device_plugin.resources.defaults import mig_resource_name, with_default_resources
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.resources.plan import make_plan

GPU = "nvidia.com/gpu"


def plan(inventory: Inventory, config=None, **flags) -> Plan:
    config = a_config(**flags) if config is None else config
    return make_plan(with_default_resources(config, inventory), inventory)


def offered(plan: Plan) -> dict[str, list[str]]:
    return {resource.name: list(resource.ids()) for resource in plan.resources}


def test_gpus_come_by_index_with_their_nodes():
    got = plan(a_node([a_gpu(1), a_gpu(0)]))

    assert offered(got) == {GPU: ["GPU-0", "GPU-1"]}
    first = got.resources[0].devices[0]
    assert (first.index, first.paths, first.numa_node) == ("0", ("/dev/nvidia10",), 0)
    assert got.resources[0].is_discrete


def test_without_gpus_nothing_is_offered():
    assert plan(a_node(0)) == Plan()
    assert plan(a_node(0), mig_strategy="mixed") == Plan()


def test_an_unreadable_gpu_is_left_out_and_named():
    inventory = replace(a_node(1), unreadable=(UnreadableGpu(1, "GPU is lost"),))

    got = plan(inventory)

    assert offered(got) == {GPU: ["GPU-0"]}
    assert got.warnings == ("GPU 1 is left out: GPU is lost",)


def test_no_readable_gpu_at_all_is_an_error():
    inventory = replace(a_node(0), unreadable=(UnreadableGpu(0, "GPU is lost"),))

    with pytest.raises(HardwareError, match="no GPU can be used: GPU 0 is left out: GPU is lost"):
        plan(inventory)


def test_gpus_with_mig_are_whole_gpus_under_the_strategy_none():
    assert offered(plan(a_node([cut_gpu(0, 1, 1), a_gpu(1)]))) == {GPU: ["GPU-0", "GPU-1"]}


def test_single_offers_mig_devices_as_gpus():
    got = plan(a_node([cut_gpu(0, 1, 1), cut_gpu(1, 1)]), mig_strategy="single")

    assert offered(got) == {GPU: ["MIG-0-0", "MIG-0-1", "MIG-1-0"]}
    device = got.resources[0].devices[1]
    assert device.index == "0:1"
    assert device.paths == (
        "/dev/nvidia10",
        "/dev/nvidia-caps/nvidia-cap9",
        "/dev/nvidia-caps/nvidia-cap10",
    )
    assert device.mig_instances == (8, 0)


def test_single_offers_whole_gpus_where_mig_is_on_nowhere():
    assert offered(plan(a_node(2), mig_strategy="single")) == {GPU: ["GPU-0", "GPU-1"]}


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ([cut_gpu(0, 1), cut_gpu(1)], "none on GPU 1"),
        ([cut_gpu(0, 1, 2)], "of one kind on all GPUs; found 1g.5gb, 2g.10gb"),
        ([cut_gpu(0, 1), a_gpu(1)], "enabled on GPU 0 only"),
    ],
)
def test_single_refuses_uneven_nodes(gpus, message):
    with pytest.raises(HardwareError, match=message):
        plan(a_node(gpus), mig_strategy="single")


def test_mixed_offers_each_profile_as_a_resource():
    suffixed = replace(
        a_mig_device(2, 0),
        profile=MigProfile(1, 1, 5, attributes=("me",)),
    )
    part = a_mig_device(3, 0, 2, compute=1)
    gpu = cut_gpu(0, 1, 3)
    gpu = replace(gpu, mig_devices=(*gpu.mig_devices, suffixed, part))

    got = plan(a_node([gpu, a_gpu(1)]), mig_strategy="mixed")

    assert offered(got) == {
        GPU: ["GPU-1"],
        "nvidia.com/mig-1c.2g.10gb": ["MIG-0-3"],
        "nvidia.com/mig-1g.5gb": ["MIG-0-0"],
        "nvidia.com/mig-1g.5gb.me": ["MIG-0-2"],
        "nvidia.com/mig-3g.20gb": ["MIG-0-1"],
    }


def test_mixed_warns_of_gpus_that_offer_nothing():
    got = plan(a_node([cut_gpu(0)]), mig_strategy="mixed")

    assert offered(got) == {}
    assert "GPU 0 has MIG enabled but no MIG devices" in got.warnings[0]


def test_unknown_capability_nodes_are_an_error_that_names_the_file():
    gpu = cut_gpu(0, 1)
    gpu = replace(gpu, mig_devices=(replace(gpu.mig_devices[0], capability_minors=None),))

    with pytest.raises(HardwareError, match=r"gpu10/gi7/ci0.*mig-minors"):
        plan(a_node([gpu]), mig_strategy="mixed")
    assert offered(plan(a_node([gpu]))) == {GPU: ["GPU-0"]}


def test_a_gpu_whose_mig_state_is_unknown_counts_only_where_that_does_not_matter():
    inventory = a_node([a_gpu(0), a_gpu(1, mig_problem="Insufficient Permissions")])

    assert offered(plan(inventory)) == {GPU: ["GPU-0", "GPU-1"]}
    single = plan(inventory, mig_strategy="single")
    assert offered(single) == {GPU: ["GPU-0"]}
    assert "Insufficient Permissions" in single.warnings[0]


def test_what_a_gpu_could_be_cut_into_counts_under_mixed_only():
    inventory = a_node([a_gpu(0), a_gpu(1, mig_profiles=(), mig_profiles_problem="Unknown Error")])

    assert offered(plan(inventory, mig_strategy="single")) == {GPU: ["GPU-0", "GPU-1"]}
    mixed = plan(inventory, mig_strategy="mixed")
    assert offered(mixed) == {GPU: ["GPU-0"]}
    assert "Unknown Error" in mixed.warnings[0]


def test_wsl_has_one_device_for_all_gpus():
    got = plan(a_node(3, Platform.WSL))

    assert offered(got) == {GPU: ["all"]}
    assert got.resources[0].devices[0].paths == ("/dev/dxg",)
    assert not got.resources[0].is_discrete


def test_tegra_has_one_device_without_nodes():
    got = plan(a_node(0, Platform.TEGRA), mig_strategy="mixed")

    assert offered(got) == {GPU: ["tegra"]}
    device = got.resources[0].devices[0]
    assert (device.index, device.paths, device.gpu_uuid) == ("0", (), "")


def test_replicas_take_the_place_of_gpus():
    config = replace(a_config(), sharing=time_sliced(2))

    assert offered(plan(a_node(2), config)) == {
        GPU: ["GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1"]
    }


def test_a_renamed_resource_replaces_the_original_name():
    config = replace(a_config(), sharing=time_sliced(2, rename="nvidia.com/gpu.shared"))

    assert list(offered(plan(a_node(1), config))) == ["nvidia.com/gpu.shared"]


def test_sharing_of_a_resource_that_is_not_there_changes_nothing():
    config = replace(a_config(), sharing=time_sliced(2, name="nvidia.com/mig-1g.5gb"))

    assert offered(plan(a_node(1), config)) == {GPU: ["GPU-0"]}


@pytest.mark.parametrize(
    ("sharing", "single"),
    [
        (time_sliced(2), False),
        (time_sliced(2, single=True), True),
        (Sharing(mps=ReplicatedResources(resources=(ReplicatedResource(GPU, 2),))), True),
        (Sharing(mps=ReplicatedResources(False, False, (ReplicatedResource(GPU, 2),))), False),
    ],
)
def test_one_replica_is_the_limit_where_the_configuration_or_mps_says_so(sharing, single):
    got = plan(a_node(1), replace(a_config(), sharing=sharing))

    assert got.resources[0].requires_single is single


@pytest.mark.parametrize(
    ("sharing", "strategy"),
    [
        (Sharing(), SharingStrategy.NONE),
        (time_sliced(2), SharingStrategy.TIME_SLICING),
        (time_sliced(2, name="nvidia.com/other"), SharingStrategy.NONE),
        (
            Sharing(mps=ReplicatedResources(resources=(ReplicatedResource(GPU, 2),))),
            SharingStrategy.MPS,
        ),
    ],
)
def test_a_resource_knows_how_it_is_shared(sharing, strategy):
    got = plan(a_node(1), replace(a_config(), sharing=sharing))

    assert got.resources[0].sharing is strategy


def test_default_resources_follow_the_strategy():
    inventory = a_node([a_gpu(0)])

    none = with_default_resources(a_config(), inventory).resources
    single = with_default_resources(a_config(mig_strategy="single"), inventory).resources
    mixed = with_default_resources(a_config(mig_strategy="mixed"), inventory).resources

    assert [(p.pattern, p.name) for p in none.gpus or ()] == [("*", GPU)]
    assert none.mig == ()
    assert [(p.pattern, p.name) for p in single.mig] == [("*", GPU)]
    assert [p.name.removeprefix("nvidia.com/mig-") for p in mixed.mig] == [
        "1g.5gb",
        "1g.5gb.me",
        "2g.10gb",
        "3g.20gb",
        "7g.40gb",
    ]
    assert with_default_resources(a_config(mig_strategy="mixed"), None).resources.mig == ()


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
        ("1c.3g.20gb", "nvidia.com/mig-1c.3g.20gb"),
    ],
)
def test_mig_resource_names(profile, name):
    assert mig_resource_name(profile) == name
