"""The section ``sharing`` where names and selections of devices are honoured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import a_config
from support.inventories import a_gpu, a_node

from gpu_device_plugin.config.model import (
    DeviceSelector,
    Extensions,
    ReplicatedResource,
    ReplicatedResources,
    ResourcePattern,
    Resources,
    Sharing,
)
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.resources.plan import make_plan

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
OTHER = "nvidia.com/other"


def entry(
    replicas: int, *references: str, count: int = 0, rename: str = SHARED
) -> ReplicatedResource:
    everything = not references and not count
    return ReplicatedResource(GPU, replicas, rename, DeviceSelector(everything, count, references))


def plan(*entries: ReplicatedResource, gpus: int = 3, names: tuple[ResourcePattern, ...] = ()):
    inventory = a_node([a_gpu(i, name="NVIDIA T4" if i else "NVIDIA A100") for i in range(gpus)])
    config = replace(
        a_config(),
        sharing=Sharing(ReplicatedResources(resources=entries)),
        resources=Resources(gpus=names),
        extensions=Extensions(honour_names=True),
    )
    return make_plan(with_default_resources(config, inventory), inventory)


def replicas(plan: Plan) -> dict[str, dict[str, int]]:
    return {r.name: {d.id: d.replicas for d in r.devices} for r in plan.resources}


def test_devices_that_are_not_selected_keep_their_name():
    assert replicas(plan(entry(4, count=2))) == {
        GPU: {"GPU-2": 0},
        SHARED: {"GPU-0": 4, "GPU-1": 4},
    }


@pytest.mark.parametrize("reference", ["1", "GPU-1"])
def test_devices_are_selected_by_index_and_uuid(reference):
    assert replicas(plan(entry(2, reference)))[SHARED] == {"GPU-1": 2}


def test_two_entries_may_give_two_names():
    got = plan(entry(2, "0"), entry(3, "1", rename=OTHER))

    assert replicas(got) == {GPU: {"GPU-2": 0}, SHARED: {"GPU-0": 2}, OTHER: {"GPU-1": 3}}


@pytest.mark.parametrize("entries", [(entry(2), entry(3, "1")), (entry(3, "1"), entry(2))])
def test_of_two_entries_for_a_device_the_larger_number_counts(entries):
    assert replicas(plan(*entries)) == {SHARED: {"GPU-0": 2, "GPU-1": 3, "GPU-2": 2}}


def test_a_device_cannot_have_two_names():
    with pytest.raises(
        ConfigError, match=r"device 1 is selected twice, as .*shared and as .*other"
    ):
        plan(entry(2), entry(3, "1", rename=OTHER))


def test_whole_and_shared_devices_cannot_have_one_name():
    with pytest.raises(ConfigError) as caught:
        plan(entry(2, "1", rename=""))
    assert str(caught.value) == (
        "nvidia.com/gpu would be both exclusive and time-sliced: "
        "GPU 0 (by default), GPU 1 (sharing.timeSlicing) "
        "(give the devices of one of them another name: rename or renameByDefault)"
    )


@pytest.mark.parametrize(
    ("selection", "warning", "shared"),
    [
        (entry(2, count=5), "5 devices are asked for, the node has 3", 3),
        (entry(2, "0", "7"), "no device 7 (there are 0 (GPU-0), 1 (GPU-1), 2 (GPU-2))", 1),
        (
            ReplicatedResource(GPU, 2, SHARED, DeviceSelector(all=False)),
            "the list of devices is empty",
            0,
        ),
    ],
)
def test_selecting_what_is_not_there_is_a_warning(selection, warning, shared):
    """A node that has lost a GPU goes on with the others."""
    got = plan(selection)

    assert got.warnings == (f"sharing of {GPU}: {warning}",)
    assert len(replicas(got).get(SHARED, {})) == shared


def test_resources_have_the_names_that_their_patterns_give():
    got = plan(
        ReplicatedResource("nvidia.com/t4", 2, "nvidia.com/t4.shared", DeviceSelector()),
        names=(ResourcePattern("*T4*", "nvidia.com/t4"), ResourcePattern("A100", OTHER)),
    )

    assert replicas(got) == {GPU: {"GPU-0": 0}, "nvidia.com/t4.shared": {"GPU-1": 2, "GPU-2": 2}}
    assert got.warnings == (
        (
            "resources.gpus: the pattern 'A100' only matches a part of the name of a product "
            "(did you mean '*A100*'?)"
        ),
    )
