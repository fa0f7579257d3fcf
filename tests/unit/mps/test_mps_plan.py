"""Configuration and plan to daemons and their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.configs import a_config
from support.inventories import a_gpu, a_node, cut_gpu

from gpu_device_plugin.config.model import (
    Config,
    Extensions,
    GpuSharing,
    MigStrategy,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.mps.plan import (
    ClientLimits,
    DaemonSpec,
    max_clients,
    plan_daemons,
    refuse_impossible,
)
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan


def mps(replicas: int, *, rename: str = "", strategy: str = "none") -> Config:
    entry = ReplicatedResource("nvidia.com/gpu", replicas, rename)
    section = ReplicatedResources(bool(rename), True, (entry,))
    return replace(a_config(mig_strategy=strategy), sharing=Sharing(mps=section))


def daemons(
    config: Config, inventory: Inventory, limits: ClientLimits | None = None
) -> tuple[DaemonSpec, ...]:
    full = with_default_resources(config, inventory)
    given = {} if limits is None else {"nvidia.com/gpu": limits}
    return plan_daemons(full, inventory, make_plan(full, inventory), given)


def node(memory: int, count: int = 1) -> Inventory:
    return a_node([a_gpu(index, memory_bytes=memory) for index in range(count)])


@pytest.mark.parametrize(
    ("memory", "count", "replicas", "limit", "percentage"),
    [
        (42949672960, 8, 10, 4096, 10),
        (25757220864, 1, 3, 8188, 33),
        (25757220864, 1, 48, 511, 2),
        (42949672960, 2, 2, 20480, 50),
        (1 << 20, 1, 2, None, 50),
    ],
)
def test_limits_are_truncated_shares(memory, count, replicas, limit, percentage):
    (spec,) = daemons(mps(replicas), node(memory, count))
    assert spec.resource == "nvidia.com/gpu"
    assert spec.gpus == tuple(f"GPU-{index}" for index in range(count))
    assert spec.thread_percentage == percentage
    expected = () if limit is None else tuple((index, limit) for index in range(count))
    assert spec.memory_limits == expected


@pytest.mark.parametrize(
    ("limits", "percentage", "memory"),
    [
        (ClientLimits(), 50, ((0, 20480), (1, 20480))),
        (ClientLimits(thread_percentage=100), 100, ((0, 20480), (1, 20480))),
        (ClientLimits(memory_mebibytes=30000), 50, ((0, 30000), (1, 30000))),
        (ClientLimits(memory_mebibytes=0), 50, ()),
        (ClientLimits(memory_by_gpu={"GPU-1": 7}), 50, ((0, 20480), (1, 7))),
        (ClientLimits(80, 9, {"0": 0, "1": 7}), 80, ((1, 7),)),
    ],
)
def test_limits_may_be_others_than_equal_shares(limits, percentage, memory):
    """Report k8s-device-plugin#1494: two replicas need not have half of the threads each."""
    (spec,) = daemons(mps(2), a_node(2), limits)
    assert (spec.thread_percentage, spec.memory_limits) == (percentage, memory)


def test_a_single_client_has_no_limits():
    entry = GpuSharing(SharingStrategy.MPS, ("0",), replicas=1, rename="nvidia.com/gpu")
    config = replace(a_config(), extensions=Extensions(sharing=(entry,)))
    inventory = a_node([a_gpu(0, memory_bytes=0)])
    assert daemons(config, inventory) == (DaemonSpec("nvidia.com/gpu", ("GPU-0",), 100),)
    assert daemons(config, a_node(1)) == (DaemonSpec("nvidia.com/gpu", ("GPU-0",), 100),)
    (limited,) = daemons(config, a_node(1), ClientLimits(memory_mebibytes=7))
    assert limited.memory_limits == ((0, 7),)


@pytest.mark.parametrize(
    "limits", [ClientLimits(memory_mebibytes=9), ClientLimits(memory_mebibytes=0)]
)
def test_a_memory_size_need_not_be_known_for_a_limit_that_is_set(limits):
    (spec,) = daemons(mps(2), a_node([a_gpu(0, memory_bytes=0)]), limits)
    assert spec.memory_limits == (((0, 9),) if limits.memory_mebibytes else ())
    assert spec.warnings == ()


def test_a_renamed_resource_has_its_daemon_under_the_new_name():
    (spec,) = daemons(mps(2, rename="nvidia.com/gpu.shared"), a_node(1))
    assert spec.resource == "nvidia.com/gpu.shared"


def test_an_index_is_that_of_nvml_and_gpus_may_differ():
    inventory = a_node([a_gpu(1, memory_bytes=4 << 30), a_gpu(3, memory_bytes=8 << 30)])
    (spec,) = daemons(mps(4), inventory)
    assert spec.memory_limits == ((1, 1024), (3, 2048))


def test_without_a_known_memory_size_there_is_no_limit_and_a_warning():
    inventory = a_node([a_gpu(0, memory_bytes=0), a_gpu(1)])
    (spec,) = daemons(mps(2), inventory)
    assert spec.memory_limits == ((1, 20480),)
    assert spec.warnings == ("no memory limit for GPU 0: its memory size is not known",)


@pytest.mark.parametrize(
    ("capability", "clients"),
    [
        (None, 16),
        ((0, 0), 16),
        ((3, 7), 16),
        ((6, 1), 16),
        ((7, 0), 48),
        ((7, 2), 48),
        ((7, 5), 48),
        ((8, 0), 48),
        ((9, 0), 48),
        ((10, 0), 48),
        ((12, 1), 48),
    ],
)
def test_clients_of_a_gpu(capability, clients):
    assert max_clients(capability) == clients


@pytest.mark.parametrize(("capability", "most"), [((7, 0), 48), ((6, 0), 16)])
def test_as_many_replicas_as_clients_are_taken_and_no_more(capability, most):
    inventory = a_node([a_gpu(0, compute_capability=capability)])
    assert len(daemons(mps(most), inventory)) == 1
    with pytest.raises(ConfigError, match=rf"replicas exceeded: {most + 1} > {most}") as error:
        daemons(mps(most + 1), inventory)
    assert f"compute capability {capability[0]}.{capability[1]}" in str(error.value)


def test_the_plugin_does_not_count_clients():
    config = with_default_resources(mps(49), a_node(1))
    plan = make_plan(config, a_node(1))
    refuse_impossible(config, a_node(1), plan, count_clients=False)


def test_mig_devices_are_refused():
    inventory = a_node([cut_gpu(0, 1, 1)])
    with pytest.raises(HardwareError, match=r"nvidia\.com/gpu holds MIG device 0:0") as error:
        daemons(mps(2, strategy=MigStrategy.SINGLE), inventory)
    assert "nvidia-smi -mig 0" in error.value.hint


def test_mig_devices_that_are_not_shared_do_no_harm():
    inventory = a_node([a_gpu(0), cut_gpu(1, 1)])
    (spec,) = daemons(mps(2, strategy=MigStrategy.MIXED), inventory)
    assert spec.gpus == ("GPU-0",)


def test_a_whole_gpu_with_mig_enabled_is_warned_about():
    (spec,) = daemons(mps(2), a_node([cut_gpu(0, 1)]))
    assert spec.warnings == ("GPU 0 has MIG enabled: MPS may not work there",)


@pytest.mark.parametrize(("platform", "name"), [(Platform.TEGRA, "Tegra"), (Platform.WSL, "WSL")])
def test_platforms_without_compute_modes_are_refused(platform, name):
    with pytest.raises(HardwareError, match=f"MPS cannot be used on {name}"):
        daemons(mps(2), a_node(1, platform=platform))


def test_single_gpus_may_be_shared_through_mps():
    entries = (
        GpuSharing(SharingStrategy.MPS, ("0",), replicas=4, rename="nvidia.com/gpu.mps"),
        GpuSharing(SharingStrategy.TIME_SLICING, ("1",), replicas=2, rename="nvidia.com/gpu.slow"),
    )
    config = replace(a_config(), extensions=Extensions(honour_names=True, sharing=entries))
    (spec,) = daemons(config, a_node(3))
    assert spec == DaemonSpec("nvidia.com/gpu.mps", ("GPU-0",), 25, ((0, 10240),))


def test_without_gpus_nothing_is_needed():
    assert daemons(mps(2), a_node(0)) == ()


def test_without_mps_nothing_is_needed():
    assert not a_config().uses_mps()
    assert daemons(a_config(), a_node(2)) == ()
    refuse_impossible(a_config(), a_node(2, Platform.TEGRA), make_plan(a_config(), a_node(0)))
