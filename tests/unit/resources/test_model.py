"""Devices, their ids, and requests for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.resources.model import Device, Plan, Resource, split_id
from gpu_device_plugin.resources.requests import requested_devices

WHOLE = Device(id="GPU-a", index="0", gpu_uuid="GPU-a")
SHARED = Device(id="GPU-b", index="1", gpu_uuid="GPU-b", gpu_index=1, replicas=12)


@pytest.mark.parametrize(
    ("device", "device_id", "known"),
    [
        (WHOLE, "GPU-a", True),
        (WHOLE, "GPU-a::0", False),
        (WHOLE, "GPU-a::", False),
        (SHARED, "GPU-b", False),
        (SHARED, "GPU-b::0", True),
        (SHARED, "GPU-b::11", True),
        (SHARED, "GPU-b::12", False),
        (SHARED, "GPU-b::01", False),
        (SHARED, "GPU-b::-1", False),
        (SHARED, "GPU-b:: 1", False),
        (SHARED, "GPU-b::1::2", False),
        (SHARED, "GPU-b::\u0661", False),
        (SHARED, "GPU-b::" + "9" * 5000, False),
        (SHARED, "", False),
    ],
)
def test_an_id_is_known_letter_by_letter_only(device, device_id, known):
    found = Resource("nvidia.com/gpu", (device,)).find(device_id)

    assert found is (device if known else None)


@given(st.integers(0, 40), st.text("GPU-x0123456789:", max_size=12))
def test_exactly_the_listed_ids_are_known(replicas, text):
    device = Device(id="GPU-x", index="0", replicas=replicas)
    resource = Resource("nvidia.com/gpu", (device,))

    assert all(resource.find(i) is device for i in resource.ids())
    assert (resource.find(text) is device) is (text in set(resource.ids()))


def test_a_request_gives_the_devices_in_its_order_and_each_id_once():
    resource = Resource("nvidia.com/gpu", (WHOLE, SHARED))

    got = requested_devices(resource, ["GPU-b::3", "GPU-a", "GPU-b::3", "GPU-b::1"])

    assert got == (SHARED, WHOLE, SHARED)


@pytest.mark.parametrize("bad", ["GPU-c", "GPU-b::99", "", "Üml✓"])
def test_an_unknown_id_is_named(bad):
    resource = Resource("nvidia.com/gpu", (WHOLE, SHARED))

    with pytest.raises(RequestError) as caught:
        requested_devices(resource, ["GPU-a", bad])

    assert repr(bad) in str(caught.value)
    assert "nvidia.com/gpu" in str(caught.value)


def test_more_than_one_replica_is_refused_where_one_is_the_limit():
    resource = Resource("nvidia.com/gpu", (SHARED,), requires_single=True)

    assert requested_devices(resource, ["GPU-b::1"]) == (SHARED,)
    with pytest.raises(RequestError, match="at most 1 replica may be asked for, not 2"):
        requested_devices(resource, ["GPU-b::1", "GPU-b::1"])


def test_the_limit_does_not_count_for_devices_that_are_not_shared():
    other = Device(id="GPU-c", index="2")
    resource = Resource("nvidia.com/gpu", (WHOLE, other), requires_single=True)

    assert requested_devices(resource, ["GPU-a", "GPU-c"]) == (WHOLE, other)


def test_names_and_sizes():
    resource = Resource("nvidia.com/gpu.shared", (WHOLE, SHARED))

    assert resource.socket_name == "nvidia-gpu.shared.sock"
    assert resource.size == 13
    assert len(list(resource.ids())) == 13
    assert resource.is_plain_gpus
    assert Plan((resource,)).names() == ("nvidia.com/gpu.shared",)
    assert split_id("GPU-b::3") == ("GPU-b", 3)
    assert not Resource("r", (WHOLE,), is_discrete=False).is_plain_gpus


def test_devices_sort_by_gpu_then_slot():
    devices = [
        Device(id="m", index="10:2", gpu_index=10, mig_instances=(1, 0)),
        Device(id="n", index="10:11", gpu_index=10, mig_instances=(2, 0)),
        Device(id="g", index="2", gpu_index=2),
        Device(id="h", index="10", gpu_index=10),
    ]

    assert [d.id for d in sorted(devices, key=lambda d: d.sort_key)] == ["g", "h", "m", "n"]
