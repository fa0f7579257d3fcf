"""Who holds which device, from what the kubelet tells of containers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.kubelet.podresources import ContainerDevices
from gpu_device_plugin.resources.model import Device, Resource, split_id
from gpu_device_plugin.status.collect import describe_resource
from gpu_device_plugin.status.holders import former_holdings, is_ours, make_holders
from gpu_device_plugin.status.model import (
    FormerHolding,
    GpuStatus,
    Hardware,
    Holder,
    MigStatus,
    ResourceStatus,
)

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
SLICE = "nvidia.com/mig-1g.5gb"


def container(
    pod: str = "train", name: str = "main", namespace: str = "ml", **devices: list[str]
) -> ContainerDevices:
    """A container; resources are named by their part behind the slash."""
    held = {
        f"nvidia.com/{resource.replace('_', '.')}": tuple(ids) for resource, ids in devices.items()
    }
    return ContainerDevices(namespace, pod, name, held)


def offered(
    resource: str, *ids: str, replicas: int = 0, containers: list[ContainerDevices] | None = None
) -> ResourceStatus:
    devices = tuple(
        Device(id=each, index=str(n), gpu_uuid=each, gpu_index=n, replicas=replicas)
        for n, each in enumerate(ids)
    )
    holders = None if containers is None else make_holders(containers)
    return describe_resource(Resource(resource, devices), {}, holders)


# ------------------------------------------------------------------ the mapping


def test_whole_gpus_and_mig_devices_are_held_without_numbers():
    held = make_holders(
        [ContainerDevices("ml", "train", "main", {GPU: ("GPU-0", "GPU-1"), SLICE: ("MIG-7",)})]
    )

    holder = Holder("ml", "train", "main")
    assert held == {
        (GPU, "GPU-0"): [holder],
        (GPU, "GPU-1"): [holder],
        (SLICE, "MIG-7"): [holder],
    }


def test_replicas_are_held_by_their_numbers_in_order():
    held = make_holders([container(gpu=["GPU-0::10", "GPU-1::0", "GPU-0::2"])])

    assert held[GPU, "GPU-0"] == [Holder("ml", "train", "main", (2, 10))]
    assert held[GPU, "GPU-1"] == [Holder("ml", "train", "main", (0,))]


def test_replicas_of_mig_devices_are_held_by_their_numbers():
    assert make_holders([container(gpu=["MIG-7::1"])]) == {
        (GPU, "MIG-7"): [Holder("ml", "train", "main", (1,))]
    }


def test_holders_of_one_device_come_in_the_order_of_their_names():
    held = make_holders(
        [
            container("web", "main", gpu=["GPU-0::2"]),
            container("train", "two", gpu=["GPU-0::1"]),
            container("train", "one", gpu=["GPU-0::3"]),
            container("zoo", "main", namespace="a", gpu=["GPU-0::0"]),
        ]
    )

    assert [(h.namespace, h.pod, h.container) for h in held[GPU, "GPU-0"]] == [
        ("a", "zoo", "main"),
        ("ml", "train", "one"),
        ("ml", "train", "two"),
        ("ml", "web", "main"),
    ]


@pytest.mark.parametrize(
    ("resource", "device_id", "ours"),
    [
        (GPU, "GPU-0", True),
        (GPU, "MIG-0::3", True),
        (GPU, "tegra", True),
        (GPU, "all::1", True),
        ("nvidia.com/GP102GL_TESLA_P40", "17", False),
        ("nvidia.com/hostdev", "0000:3b:00.0", False),
        ("nvidia.com/gpu", "allocated", False),
        ("amd.com/gpu", "GPU-0", False),
    ],
)
def test_devices_of_other_plugins_are_ignored(resource, device_id, ours):
    assert is_ours(resource, device_id) is ours
    assert bool(make_holders([ContainerDevices("n", "p", "c", {resource: (device_id,)})])) is ours


@pytest.mark.parametrize(
    ("device_id", "parts"),
    [
        ("GPU-0", ("GPU-0", None)),
        ("GPU-0::7", ("GPU-0", 7)),
        ("GPU-0::", ("GPU-0::", None)),
        ("GPU-0::x", ("GPU-0::x", None)),
        ("GPU-0::٣", ("GPU-0::٣", None)),
        ("GPU-0::" + "9" * 5000, ("GPU-0::" + "9" * 5000, None)),
    ],
)
def test_only_a_number_is_the_number_of_a_replica(device_id, parts):
    assert split_id(device_id) == parts


names = st.sampled_from(["a", "b", "c"])
ids = st.builds(
    lambda device, number: device if number is None else f"{device}::{number}",
    st.sampled_from(["GPU-0", "GPU-1", "MIG-0"]),
    st.none() | st.integers(0, 5),
)
containers = st.lists(
    st.builds(
        ContainerDevices,
        names,
        names,
        names,
        st.dictionaries(st.sampled_from([GPU, SHARED]), st.lists(ids, unique=True).map(tuple)),
    ),
    unique_by=lambda c: (c.namespace, c.pod, c.container),
    max_size=6,
)


@settings(deadline=None)
@given(containers)
def test_nothing_is_lost_and_nothing_is_made_up(given_containers):
    told = {
        (resource, *split_id(i), c.namespace, c.pod, c.container)
        for c in given_containers
        for resource, held in c.devices.items()
        for i in held
        # Whole and replicated at once is told as replicas.
        if split_id(i)[1] is not None or not any(o.startswith(f"{i}::") for o in held)
    }
    found = {
        (resource, device, number, h.namespace, h.pod, h.container)
        for (resource, device), those in make_holders(given_containers).items()
        for h in those
        for number in h.replicas or (None,)
    }

    assert found == told


@settings(deadline=None)
@given(containers)
def test_the_order_in_which_the_kubelet_tells_does_not_matter(given_containers):
    assert make_holders(given_containers) == make_holders(given_containers[::-1])


@settings(deadline=None)
@given(containers, st.integers(0, 4))
def test_every_holding_is_in_use_or_former(given_containers, replicas):
    holders = make_holders(given_containers)
    resource = offered(GPU, "GPU-0", "GPU-1", replicas=replicas, containers=given_containers)
    former = former_holdings(holders, [resource], None)

    assert resource.in_use is not None
    assert 0 <= resource.in_use <= resource.capacity
    for (name, device), those in holders.items():
        for holder in those:
            is_current = (
                name == GPU and device != "MIG-0" and bool(holder.replicas) == bool(replicas)
            )
            if not is_current:
                assert FormerHolding(name, device, "", holder) in former


# ------------------------------------------------------------------ use


def test_what_is_in_use_is_counted_as_the_kubelet_counts_it():
    held = [container("a", gpu=["GPU-0::0", "GPU-0::2"]), container("b", gpu=["GPU-1::1"])]

    resource = offered(GPU, "GPU-0", "GPU-1", replicas=4, containers=held)

    assert (resource.capacity, resource.in_use) == (8, 3)


def test_who_holds_replicas_that_are_not_offered_any_more_does_not_use_up_others():
    held = [container("a", gpu=["GPU-0::1", "GPU-0::7"]), container("b", gpu=["GPU-0"])]

    resource = offered(GPU, "GPU-0", replicas=4, containers=held)

    assert resource.in_use == 1
    assert len(resource.devices[0].holders) == 2


def test_use_is_not_known_if_nobody_tells():
    assert offered(GPU, "GPU-0").in_use is None


# ------------------------------------------------------------------ former configurations


def test_a_device_that_is_not_offered_any_more_is_named_by_its_index():
    hardware = Hardware(
        "nvml",
        "",
        "",
        "",
        "",
        "",
        gpus=(
            GpuStatus(
                3,
                "GPU-3",
                "A100",
                0,
                "",
                None,
                "",
                mig_enabled=True,
                lost="",
                mig_devices=(MigStatus("MIG-7", 1, "1g.5gb", 7, 0, 0),),
            ),
        ),
    )
    holders = make_holders(
        [ContainerDevices("ml", "old", "main", {GPU: ("GPU-3", "GPU-gone"), SLICE: ("MIG-7",)})]
    )

    holder = Holder("ml", "old", "main")
    assert former_holdings(holders, [], hardware) == (
        FormerHolding(GPU, "GPU-3", "3", holder),
        FormerHolding(GPU, "GPU-gone", "", holder),
        FormerHolding(SLICE, "MIG-7", "3:1", holder),
    )


@pytest.mark.parametrize(
    ("replicas", "device_id", "is_former"),
    [
        (0, "GPU-0", False),
        (0, "GPU-0::1", True),
        (4, "GPU-0::3", False),
        (4, "GPU-0::4", True),
        (4, "GPU-0", True),
    ],
)
def test_a_device_that_is_shared_in_another_way_now_is_held_as_formerly(
    replicas, device_id, is_former
):
    holders = make_holders([container(gpu=[device_id])])

    former = former_holdings(holders, [offered(GPU, "GPU-0", replicas=replicas)], None)

    assert [f.holder.pod for f in former] == ["train"] * is_former
