"""Which GPUs are offered, and how each of them is shared, by ``extensions``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import a_config, time_sliced
from support.inventories import a_gpu, a_node, cut_gpu

from gpu_device_plugin.config.model import (
    Extensions,
    GpuSelection,
    GpuSharing,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.model import Inventory, Platform, UnreadableGpu
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.resources.plan import make_plan
from gpu_device_plugin.resources.selection import left_out

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
EXCLUSIVE, SLICED, MPS = SharingStrategy.NONE, SharingStrategy.TIME_SLICING, SharingStrategy.MPS
ALL_MPS = Sharing(mps=ReplicatedResources(resources=(ReplicatedResource(GPU, 4),)))


def plan(
    inventory: Inventory,
    *entries: GpuSharing,
    include: tuple[str, ...] | None = None,
    exclude: tuple[str, ...] = (),
    sharing: Sharing | None = None,
    strategy: str = "none",
) -> Plan:
    config = replace(
        a_config(mig_strategy=strategy),
        sharing=sharing or Sharing(),
        extensions=Extensions(gpus=GpuSelection(include, exclude), sharing=entries),
    )
    return make_plan(with_default_resources(config, inventory), inventory)


def entry(strategy: SharingStrategy, *gpus: str, **more: object) -> GpuSharing:
    replicas = 0 if strategy is EXCLUSIVE else 4
    given = {"gpus": gpus or None, "replicas": replicas, **more}
    return GpuSharing(strategy, **given)  # type: ignore[arg-type]  # by name


def replicas(plan: Plan) -> dict[str, dict[str, int]]:
    return {r.name: {d.id: d.replicas for d in r.devices} for r in plan.resources}


def offered(plan: Plan) -> set[str]:
    return {device.id for resource in plan.resources for device in resource.devices}


def models(*names: str) -> Inventory:
    return a_node([a_gpu(index, name=name) for index, name in enumerate(names)])


# --- which GPUs are offered


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        (None, (), {0, 1, 2}),
        (("0", "2"), (), {0, 2}),
        (("GPU-1",), (), {1}),
        (("gpu-1",), (), {1}),
        (("*A100*",), (), {0, 1}),
        (("NVIDIA-T4",), (), {2}),
        (("*",), ("1",), {0, 2}),
        (("0", "1"), ("1", "2"), {0}),
        (None, ("*T4", "GPU-0"), {1}),
    ],
)
def test_gpus_are_included_and_excluded(include, exclude, left):
    got = plan(models("NVIDIA A100", "NVIDIA A100", "NVIDIA T4"), include=include, exclude=exclude)

    assert offered(got) == {f"GPU-{index}" for index in left}
    assert got.warnings == ()


def test_excluding_every_gpu_leaves_nothing_and_a_warning():
    got = plan(a_node(2), exclude=("*",))

    assert got == Plan(warnings=("extensions.gpus leaves none of the 2 GPUs",))


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        (None, ("0",), {"GPU-1"}),
        (None, ("0:1",), {"MIG-0-0", "GPU-1"}),
        (None, ("MIG-0-0", "1"), {"MIG-0-1"}),
        (None, ("0:0", "0:1"), {"GPU-1"}),
        (("0:1",), (), {"MIG-0-1"}),
        (("mig-0-1", "1"), (), {"MIG-0-1", "GPU-1"}),
    ],
)
def test_mig_devices_go_with_their_gpu_or_alone(include, exclude, left):
    inventory = a_node([cut_gpu(0, 1, 2), a_gpu(1)])

    got = plan(inventory, include=include, exclude=exclude, strategy="mixed")

    assert offered(got) == left
    assert got.warnings == ()


def test_a_gpu_that_is_not_cut_up_is_not_offered_for_the_sake_of_a_part():
    inventory = a_node([cut_gpu(0, 1, 2), a_gpu(1)])

    assert offered(plan(inventory, include=("0:1", "1"))) == {"GPU-1"}
    assert offered(plan(inventory, exclude=("0:1",))) == {"GPU-0", "GPU-1"}


def test_the_mig_strategy_single_does_not_see_what_is_excluded():
    inventory = a_node([cut_gpu(0, 1, 1), a_gpu(1), cut_gpu(2)])

    got = plan(inventory, exclude=("1", "2"), strategy="single")

    assert replicas(got) == {GPU: {"MIG-0-0": 0, "MIG-0-1": 0}}


def test_a_broken_gpu_that_is_excluded_is_not_mentioned():
    inventory = replace(a_node(1), unreadable=(UnreadableGpu(1, "GPU is lost"),))

    assert plan(inventory, exclude=("1",)).warnings == ()
    assert plan(inventory, exclude=("0", "1")).resources == ()
    with pytest.raises(HardwareError, match="no GPU can be used: GPU 1"):
        plan(inventory, exclude=("0",))


# --- what is not to be reached in another way either


CUT = a_node([cut_gpu(0, 1, 2), a_gpu(1)])


@pytest.mark.parametrize(
    ("inventory", "exclude", "strategy", "expected"),
    [
        (CUT, (), "mixed", set()),
        (CUT, ("1",), "mixed", {"1"}),
        (CUT, ("0:1",), "mixed", {"0:1"}),
        (CUT, ("0:0", "MIG-0-1"), "mixed", {"0", "0:0", "0:1"}),
        (CUT, ("GPU-0",), "none", {"0", "0:0", "0:1"}),
        (replace(CUT, unreadable=(UnreadableGpu(2, "lost"),)), ("1", "2"), "none", {"1", "2"}),
        (a_node(2, Platform.WSL), ("0",), "none", set()),
        (a_node(2, Platform.WSL), ("*",), "none", {"0", "1"}),
        (a_node(0, Platform.TEGRA), ("1",), "none", set()),
        (a_node(0, Platform.TEGRA), ("tegra",), "none", {"0"}),
        (a_node(2, Platform.TEGRA), ("tegra",), "none", {"0", "1"}),
    ],
)
def test_what_is_left_out_is_known(inventory, exclude, strategy, expected):
    config = replace(
        a_config(mig_strategy=strategy), extensions=Extensions(gpus=GpuSelection(exclude=exclude))
    )

    assert left_out(config, inventory) == expected


# --- how they are shared


def test_three_ways_of_sharing_are_side_by_side():
    got = plan(
        a_node(6),
        entry(EXCLUSIVE, "0", "1"),
        entry(MPS, "2", "GPU-3", replicas=10, rename="nvidia.com/gpu.mps"),
        entry(SLICED, rename=SHARED),
    )

    assert replicas(got) == {
        GPU: {"GPU-0": 0, "GPU-1": 0},
        "nvidia.com/gpu.mps": {"GPU-2": 10, "GPU-3": 10},
        SHARED: {"GPU-4": 4, "GPU-5": 4},
    }
    assert [(r.sharing, r.requires_single, r.size) for r in got.resources] == [
        (EXCLUSIVE, False, 2),
        (MPS, True, 20),
        (SLICED, False, 8),
    ]


def test_the_first_entry_decides_and_its_number_of_replicas_may_differ():
    got = plan(
        models("NVIDIA A100", "NVIDIA T4", "NVIDIA T4"),
        entry(SLICED, "1", replicas=3),
        entry(SLICED, "*T4*", replicas=2),
        entry(SLICED, replicas=8),
    )

    assert replicas(got) == {GPU: {"GPU-0": 8, "GPU-1": 3, "GPU-2": 2}}


def test_gpus_without_entry_follow_the_section():
    got = plan(a_node(3), entry(EXCLUSIVE, "0"), sharing=time_sliced(2, rename=SHARED))

    assert replicas(got) == {GPU: {"GPU-0": 0}, SHARED: {"GPU-1": 2, "GPU-2": 2}}


def test_exclusive_gpus_can_have_a_name_of_their_own():
    got = plan(a_node(2), entry(EXCLUSIVE, "0", rename="nvidia.com/whole"), sharing=ALL_MPS)

    assert replicas(got) == {GPU: {"GPU-1": 4}, "nvidia.com/whole": {"GPU-0": 0}}
    assert [r.sharing for r in got.resources] == [MPS, EXCLUSIVE]
    assert [r.requires_single for r in got.resources] == [True, False]


def test_the_section_does_nothing_for_a_resource_that_the_entries_have_taken():
    got = plan(a_node(2), entry(EXCLUSIVE), sharing=time_sliced(2))

    assert replicas(got) == {GPU: {"GPU-0": 0, "GPU-1": 0}}
    assert got.resources[0].sharing is EXCLUSIVE


def test_mig_devices_follow_their_gpu_unless_profiles_are_given():
    inventory = a_node([cut_gpu(0, 1, 2), a_gpu(1)])

    follow = plan(inventory, entry(SLICED, "0"), strategy="mixed")
    limited = plan(inventory, entry(SLICED, mig=("1g.*",)), strategy="mixed")
    single = plan(inventory, entry(SLICED, "0:1"), strategy="mixed")

    assert replicas(follow) == {
        GPU: {"GPU-1": 0},
        "nvidia.com/mig-1g.5gb": {"MIG-0-0": 4},
        "nvidia.com/mig-2g.10gb": {"MIG-0-1": 4},
    }
    assert replicas(limited)["nvidia.com/mig-1g.5gb"] == {"MIG-0-0": 4}
    assert replicas(limited)["nvidia.com/mig-2g.10gb"] == {"MIG-0-1": 0}
    assert replicas(limited)[GPU] == {"GPU-1": 0}
    assert replicas(single)["nvidia.com/mig-2g.10gb"] == {"MIG-0-1": 4}


def test_parts_of_both_kinds_may_have_one_name():
    got = plan(
        a_node([cut_gpu(0, 1), a_gpu(1)]),
        entry(SLICED, replicas=2, rename="nvidia.com/small"),
        strategy="mixed",
    )

    assert replicas(got) == {"nvidia.com/small": {"MIG-0-0": 2, "GPU-1": 2}}


@pytest.mark.parametrize(
    ("values", "single"),
    [
        ((None, None), False),
        ((None, True), True),
        ((False, None), False),
        ((True, True), True),
    ],
)
def test_what_is_said_of_one_device_holds_for_the_resource(values, single):
    entries = [
        entry(SLICED, str(index), fail_requests_greater_than_one=value)
        for index, value in enumerate(values)
    ]

    assert plan(a_node(2), *entries).resources[0].requires_single is single


def test_mps_can_be_told_to_allow_more_than_one_replica():
    got = plan(a_node(1), entry(MPS, fail_requests_greater_than_one=False))

    assert got.resources[0].requires_single is False


# --- what cannot be


RENAME = "(give the devices of one of them another name: rename or renameByDefault)"
CONFLICTS = {
    "exclusive and shared by entries": (
        (entry(EXCLUSIVE, "0"), entry(SLICED)),
        Sharing(),
        (
            f"{GPU} would be both exclusive and time-sliced: GPU 0 (extensions.sharing[0]), "
            f"GPU 1 (extensions.sharing[1]) {RENAME}"
        ),
    ),
    "exclusive for want of an entry": (
        (entry(MPS, "1"),),
        Sharing(),
        (
            f"{GPU} would be both exclusive and shared through MPS: GPU 0 (by default), "
            f"GPU 1 (extensions.sharing[0]) {RENAME}"
        ),
    ),
    "exclusive beside the section": (
        (entry(EXCLUSIVE, "1"),),
        time_sliced(2),
        (
            f"{GPU} would be both time-sliced and exclusive: GPU 0 (sharing.timeSlicing), "
            f"GPU 1 (extensions.sharing[0]) {RENAME}"
        ),
    ),
    "two ways of sharing": (
        (entry(SLICED, "1"),),
        ALL_MPS,
        (
            f"{GPU} would be both shared through MPS and time-sliced: GPU 0 (sharing.mps), "
            f"GPU 1 (extensions.sharing[0]) {RENAME}"
        ),
    ),
    "a name that is taken": (
        (entry(SLICED, "1", rename=GPU),),
        Sharing(),
        (
            f"{GPU} would be both exclusive and time-sliced: GPU 0 (by default), "
            f"GPU 1 (extensions.sharing[0]) {RENAME}"
        ),
    ),
    "numbers that differ under MPS": (
        (entry(MPS, "0", replicas=2), entry(MPS, replicas=3)),
        Sharing(),
        (
            f"{GPU} would have 2 and 3 replicas of a GPU: GPU 0 (extensions.sharing[0]), "
            "GPU 1 (extensions.sharing[1]) "
            "(one MPS daemon serves a resource with one limit; use one number, or rename)"
        ),
    ),
    "true and false": (
        (
            entry(SLICED, "0", fail_requests_greater_than_one=False),
            entry(SLICED, fail_requests_greater_than_one=True),
        ),
        Sharing(),
        (
            f"failRequestsGreaterThanOne is true and false for {GPU}: GPU 1 (extensions.sharing[1]), "
            "GPU 0 (extensions.sharing[0]) (use one value for all devices of a resource)"
        ),
    ),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_conflicts(case):
    entries, sharing, message = CONFLICTS[case]

    with pytest.raises(ConfigError) as caught:
        plan(a_node(2), *entries, sharing=sharing)
    assert str(caught.value) == message


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_mps_is_not_for_mig_devices(strategy):
    with pytest.raises(ConfigError) as caught:
        plan(a_node([cut_gpu(0, 1, 1)]), entry(MPS, "0"), strategy=strategy)
    assert str(caught.value) == (
        "extensions.sharing[0]: MPS cannot be used with MIG device 0:0 "
        "(select GPUs that are not cut, or put an entry with mig: ['*'] before it)"
    )


def test_mps_goes_with_mig_devices_that_another_entry_takes():
    inventory = a_node([cut_gpu(0, 1), a_gpu(1)])

    got = plan(inventory, entry(EXCLUSIVE, mig=("*",)), entry(MPS), strategy="mixed")

    assert replicas(got) == {"nvidia.com/mig-1g.5gb": {"MIG-0-0": 0}, GPU: {"GPU-1": 4}}


# --- what is probably not as it was meant


def test_references_to_what_is_not_there_are_named():
    inventory = replace(a_node([cut_gpu(0, 1)]), unreadable=(UnreadableGpu(1, "GPU is lost"),))
    uuid = "GPU-b2f4a1c6-0000-4000-8000-0123456789ab"

    got = plan(
        inventory,
        entry(EXCLUSIVE, "0", "1", "2", "0:0", "0:1", uuid),
        include=("0", "7"),
        exclude=("8",),
    )

    lacks = "this node has no GPU or MIG device"
    assert got.warnings == (
        "GPU 1 is left out: GPU is lost",
        f"extensions.gpus.include: {lacks} 7",
        f"extensions.gpus.exclude: {lacks} 8",
        f"extensions.sharing[0].gpus: {lacks} 2",
        f"extensions.sharing[0].gpus: {lacks} 0:1",
        f"extensions.sharing[0].gpus: {lacks} {uuid}",
    )


def test_patterns_that_find_nothing_are_no_mistake_unless_they_lack_a_star():
    inventory = models("NVIDIA L40", "NVIDIA L40S")

    got = plan(
        inventory,
        entry(EXCLUSIVE, "*H100*", "NVIDIA L40", "L40S", "nvidia"),
        include=("NVIDIA*",),
        exclude=("L40",),
    )

    part = "only matches a part of the name of a product"
    assert got.warnings == (
        f"extensions.gpus.exclude: the pattern 'L40' {part} (did you mean '*L40*'?)",
        f"extensions.sharing[0].gpus: the pattern 'L40S' {part} (did you mean '*L40S*'?)",
    )


def test_a_node_without_gpus_gives_no_warnings():
    assert plan(a_node(0), entry(SLICED, "0"), include=("1",)) == Plan()


# --- platforms with one device


@pytest.mark.parametrize("selector", ["0", "tegra", "*teg*", "Orin"])
def test_tegra_has_one_gpu(selector):
    inventory = replace(a_node([a_gpu(0, name="Orin")]), platform=Platform.TEGRA)

    shared = plan(inventory, entry(SLICED, selector, replicas=2))

    assert replicas(shared) == {GPU: {"tegra": 2}}
    assert plan(inventory, exclude=(selector,)).resources == ()
    assert offered(plan(a_node(0, Platform.TEGRA), entry(SLICED, "0"))) == {"tegra"}


def test_wsl_has_one_device_for_all_gpus():
    inventory = a_node(2, Platform.WSL)

    shared = plan(inventory, entry(SLICED, "0", replicas=2), entry(SLICED, replicas=3))
    partly = plan(inventory, exclude=("0",))

    assert replicas(shared) == {GPU: {"all": 2}}
    assert offered(partly) == {"all"}
    assert partly.warnings == (
        "extensions.gpus cannot leave out single GPUs on WSL, which has one device for all",
    )
    assert plan(inventory, exclude=("*",)).resources == ()
