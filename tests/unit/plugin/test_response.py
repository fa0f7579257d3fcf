"""How devices get into a container."""

from __future__ import annotations

import os

import pytest
from support.configs import a_config

from gpu_device_plugin.imex import ImexChannel
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.plugin.response import AllocationSettings, make_response
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.resources.requests import requested_devices

CHANNEL = ImexChannel("0", "/dev/nvidia-caps-imex-channels/channel0", "/d/channel0")
RESOURCE = Resource(
    "nvidia.com/gpu",
    (
        Device(id="GPU-a", index="0", paths=("/dev/nvidia3",)),
        Device(id="GPU-b", index="1", paths=("/dev/nvidia1",), gpu_index=1),
        Device(id="GPU-c", index="2", paths=("/dev/nvidia2",), gpu_index=2, replicas=3),
    ),
)


@pytest.fixture(autouse=True)
def control_nodes(monkeypatch):
    """Two of the control nodes are there."""
    there = {"/dev/nvidiactl", "/dev/nvidia-uvm"}
    monkeypatch.setattr(os.path, "exists", there.__contains__)


def answer(*ids: str, channels=(), resource=RESOURCE, **flags) -> pb.ContainerAllocateResponse:
    settings = AllocationSettings.of(a_config(**flags), channels)
    return make_response(settings, resource, requested_devices(resource, ids))


def nodes(response: pb.ContainerAllocateResponse) -> list[str]:
    assert {d.permissions for d in response.devices} <= {"rw"}
    return [f"{d.host_path}>{d.container_path}" for d in response.devices]


def mounts(response: pb.ContainerAllocateResponse) -> list[str]:
    assert {m.host_path for m in response.mounts} <= {"/dev/null"}
    return [m.container_path for m in response.mounts]


def test_ids_are_named_once_in_the_order_of_the_request():
    got = answer("GPU-b", "GPU-c::2", "GPU-a", "GPU-c::0", "GPU-b")

    assert dict(got.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-b,GPU-c,GPU-a"}
    assert (nodes(got), mounts(got)) == ([], [])


def test_indices_are_named_where_they_are_wanted():
    got = answer("GPU-b", "GPU-c::2", "GPU-c::1", device_id_strategy="index")

    assert got.envs["NVIDIA_VISIBLE_DEVICES"] == "1,2"


def test_no_ids_are_an_empty_list():
    assert dict(answer().envs) == {"NVIDIA_VISIBLE_DEVICES": ""}


def test_volume_mounts_name_devices_by_paths():
    got = answer("GPU-b", channels=(CHANNEL,), device_list_strategy=("volume-mounts",))

    assert dict(got.envs) == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
    assert mounts(got) == [
        "/var/run/nvidia-container-devices/GPU-b",
        "/var/run/nvidia-container-devices/imex/0",
    ]


def test_mounts_win_over_the_variable():
    got = answer("GPU-b", channels=(CHANNEL,), device_list_strategy=("volume-mounts", "envvar"))

    assert dict(got.envs) == {
        "NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices",
        "NVIDIA_IMEX_CHANNELS": "0",
    }


def test_device_nodes_come_with_control_nodes_before_and_channels_behind():
    got = answer("GPU-b", "GPU-a", channels=(CHANNEL,), pass_device_specs=True)

    assert nodes(got) == [
        "/dev/nvidiactl>/dev/nvidiactl",
        "/dev/nvidia-uvm>/dev/nvidia-uvm",
        "/dev/nvidia1>/dev/nvidia1",
        "/dev/nvidia3>/dev/nvidia3",
        "/dev/nvidia-caps-imex-channels/channel0>/dev/nvidia-caps-imex-channels/channel0",
    ]


def test_replicas_repeat_the_node_and_equal_ids_do_not():
    got = answer("GPU-c::0", "GPU-c::1", "GPU-c::1", pass_device_specs=True)

    assert nodes(got)[2:] == ["/dev/nvidia2>/dev/nvidia2"] * 2


def test_host_paths_are_below_the_dev_root():
    got = answer("GPU-b", pass_device_specs=True, nvidia_dev_root="/run/nvidia/driver/")

    assert nodes(got)[2] == "/run/nvidia/driver/dev/nvidia1>/dev/nvidia1"


def test_there_are_no_control_nodes_without_discrete_gpus():
    wsl = Resource(
        "nvidia.com/gpu", (Device(id="all", index="all", paths=("/dev/dxg",)),), is_discrete=False
    )

    assert nodes(answer("all", resource=wsl, pass_device_specs=True)) == ["/dev/dxg>/dev/dxg"]


def test_features_are_variables_of_their_own_whatever_the_strategy():
    on = {"gdrcopy_enabled": True, "gds_enabled": True, "mofed_enabled": True}
    features = {
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
    }

    assert dict(answer("GPU-a", **on).envs) == features | {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}
    assert dict(answer("GPU-a", device_list_strategy=("cdi-cri",), **on).envs) == features


@pytest.mark.parametrize("strategies", [("cdi-cri",), ("cdi-annotations", "cdi-cri"), ()])
def test_without_a_plain_strategy_there_is_nothing_but_what_cdi_adds(strategies):
    got = answer(
        "GPU-a", channels=(CHANNEL,), pass_device_specs=True, device_list_strategy=strategies
    )

    assert got == pb.ContainerAllocateResponse()


def test_a_plain_strategy_beside_cdi_is_answered_too():
    got = answer("GPU-a", pass_device_specs=True, device_list_strategy=("cdi-cri", "envvar"))

    assert dict(got.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}
    assert len(nodes(got)) == 3


def test_injectors_come_first_and_know_the_names():
    class Marker:
        def inject(self, response, resource, names):
            response.envs["FIRST"] = f"{resource.name} {','.join(names)}"
            response.mounts.add(host_path="/dev/null", container_path="/first")

    settings = AllocationSettings.of(
        a_config(device_list_strategy=("volume-mounts",)), injectors=(Marker(),)
    )
    ids = ["GPU-c::1", "GPU-a"]

    got = make_response(settings, RESOURCE, requested_devices(RESOURCE, ids))

    assert got.envs["FIRST"] == "nvidia.com/gpu GPU-c,GPU-a"
    assert mounts(got)[0] == "/first"
    assert os.path.dirname(mounts(got)[1]) == "/var/run/nvidia-container-devices"
