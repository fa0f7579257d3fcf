"""A node read without its plugin: whom to believe, and what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.local_statuses import GPU, everything, hardware, held, status_of, uuids

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.status.local import HardwareRead, KubeletTold, LocalView, describe_node
from gpu_device_plugin.status.model import Holder


def test_health_is_what_the_kubelet_believes():
    read = hardware()
    sick = uuids(read)[2]

    status = status_of(read, allocatable=everything(read, but=[sick]))

    (resource,) = status.resources
    assert (resource.capacity, resource.allocatable, resource.registered) == (4, 3, True)
    assert [d.healthy for d in resource.devices] == [True, True, False, True]
    illness = resource.devices[2].illness
    assert illness is not None
    assert illness.reason == "not handed out by the kubelet; the log of the plugin says why"


def test_the_driver_is_asked_what_is_wrong_with_unhealthy_gpus_only():
    read = hardware()
    sick = uuids(read)[2]
    told = KubeletTold((), everything(read, but=[sick]))

    view = LocalView.of(read, told)

    assert [gpu.uuid for gpu in view.suspects()] == [sick]
    status = describe_node(view, {sick: "it needs a reset"}, node="n", now=1, started=1)
    illness = status.resources[0].devices[2].illness
    assert illness is not None
    assert illness.reason == "it needs a reset"


def test_without_a_kubelet_health_is_not_known_and_the_driver_is_asked_of_every_gpu():
    read = hardware()
    told = KubeletTold(pods_problem="it is away", allocatable_problem="it is away")

    view = LocalView.of(read, told)
    status = describe_node(view, {}, node="n", now=7, started=1)

    assert len(view.suspects()) == 4
    (resource,) = status.resources
    assert not resource.health_known
    assert resource.in_use is None
    assert (status.pods.problem, status.pods.time) == ("it is away", 0)
    assert status.ready.ok


def test_replicas_of_a_device_are_healthy_together():
    read = hardware(replicas=4)
    sick = uuids(read)[0]

    status = status_of(read, allocatable=everything(read, but=[f"{sick}::{n}" for n in range(4)]))

    (resource,) = status.resources
    assert (resource.capacity, resource.allocatable) == (16, 12)
    assert not resource.devices[0].healthy


@pytest.mark.parametrize(
    "allocatable",
    [
        pytest.param(
            lambda ids: {GPU: tuple(f"{i}::{n}" for i in ids for n in range(2))}, id="more"
        ),
        pytest.param(
            lambda ids: {"nvidia.com/gpu.shared": tuple(f"{i}::0" for i in ids)}, id="name"
        ),
        pytest.param(lambda _: {GPU: ("GPU-elsewhere",)}, id="unknown device"),
    ],
)
def test_what_the_kubelet_offers_counts_if_it_is_something_else(allocatable):
    read = hardware()
    told = KubeletTold((), allocatable(uuids(read)))

    view = LocalView.of(read, told)
    status = describe_node(view, {}, node="n", now=1, started=1)

    assert view.is_observed
    assert {
        r.name: tuple(i for d in view_resource.devices for i in d.ids())
        for r, view_resource in zip(status.resources, view.resources, strict=True)
    } == {name: tuple(sorted(ids, key=view_order(view))) for name, ids in told.allocatable.items()}  # type: ignore[union-attr]
    assert all(d.healthy for r in status.resources for d in r.devices)


def view_order(view: LocalView):
    order = [i for r in view.resources for d in r.devices for i in d.ids()]
    return order.index


def test_fewer_replicas_than_planned_are_another_configuration_and_no_illness():
    read = hardware(replicas=4)
    told = KubeletTold((), {GPU: tuple(f"{i}::{n}" for i in uuids(read) for n in range(2))})

    view = LocalView.of(read, told)

    assert view.is_observed
    assert [d.replicas for d in view.resources[0].devices] == [2, 2, 2, 2]
    assert [d.index for d in view.resources[0].devices] == ["0", "1", "2", "3"]


def test_observed_replicas_do_not_say_how_they_share():
    read = hardware()
    status = status_of(read, allocatable={GPU: tuple(f"{i}::0" for i in uuids(read))})

    assert [r.sharing for r in status.resources] == [""]


def test_devices_of_other_plugins_do_not_matter():
    read = hardware()
    allocatable = {**everything(read), "intel.com/qat": ("x",), "nvidia.com/hostdev": ("0000:1",)}

    assert not LocalView.of(read, KubeletTold((), allocatable)).is_observed


def test_a_resource_without_healthy_devices_is_not_ready():
    read = hardware()

    status = status_of(read, allocatable={})

    assert status.ready.reasons == (
        "nvidia.com/gpu: the kubelet has no healthy device of it, or no plugin for it",
    )
    assert not status.resources[0].registered


def test_mig_devices_are_observed_with_their_indices():
    read = hardware("dgx-a100-mig", strategy="none")
    assert read.inventory is not None
    gpu = next(g for g in read.inventory.gpus if g.mig_devices)
    mig = gpu.mig_devices[0]

    status = status_of(read, allocatable={"nvidia.com/mig-any": (mig.uuid,)})

    (device,) = status.resources[0].devices
    assert (device.index, device.mig, device.gpu_uuid) == (
        f"{gpu.index}:{mig.slot}",
        True,
        gpu.uuid,
    )


def test_holders_are_told_and_what_is_not_offered_any_more_is_told_apart():
    read = hardware()
    first = uuids(read)[0]

    status = status_of(read, [held("train", first), held("old", f"{first}::3")])

    (resource,) = status.resources
    assert resource.in_use == 1
    assert [f.holder for f in status.pods.former] == [Holder("ml", "old", "main", (3,))]
    assert status.pods.former[0].index == "0"


def test_a_driver_that_cannot_be_used_is_told():
    loaded: Loaded = hardware().loaded
    read = HardwareRead(loaded, None, init_problem="no libnvidia-ml.so.1")

    status = status_of(read, [], allocatable={GPU: ("GPU-0",)})

    assert status.hardware is not None
    assert status.hardware.problem == "no libnvidia-ml.so.1"
    assert status.ready.reasons == ("no devices: no libnvidia-ml.so.1",)
    assert [d.index for r in status.resources for d in r.devices] == ["?"]


def test_a_configuration_that_offers_nothing_is_told_unless_the_kubelet_knows_better():
    read = replace(hardware("dgx-a100-mig", strategy="single"))
    assert read.plan_problem

    blind = status_of(read, allocatable={})
    assert blind.ready.reasons == (f"nothing is offered: {read.plan_problem}",)

    seeing = status_of(read, allocatable={GPU: (uuids(read)[2],)})
    assert seeing.ready.ok
    assert seeing.configuration is not None
    assert seeing.configuration.problem == read.plan_problem
