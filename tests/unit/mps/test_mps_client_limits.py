"""``extensions.mps`` to limits of clients."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from support.configs import a_config
from support.inventories import a_node

from gpu_device_plugin.config.model import (
    Config,
    Extensions,
    GpuSharing,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.config.model_mps import MpsLimits, MpsSettings
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.mps.client_limits import find_limits
from gpu_device_plugin.mps.node import DaemonReader
from gpu_device_plugin.mps.plan import ClientLimits
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan

GPU, OFFERED = "nvidia.com/gpu", "nvidia.com/gpu.shared"


def config(*limits: MpsLimits, rename: str = "", sharing: tuple[GpuSharing, ...] = ()) -> Config:
    section = ReplicatedResources(bool(rename), True, (ReplicatedResource(GPU, 4, rename),))
    return replace(
        a_config(),
        sharing=Sharing(mps=section),
        extensions=Extensions(sharing=sharing, mps=MpsSettings(limits)),
    )


def found(given: Config) -> tuple[dict[str, ClientLimits], list[str]]:
    inventory = a_node(2)
    full = with_default_resources(given, inventory)
    warnings: list[str] = []
    return find_limits(full, inventory, make_plan(full, inventory), warnings), warnings


def test_without_settings_there_are_no_limits():
    assert found(config()) == ({}, [])


@pytest.mark.parametrize(("name", "rename"), [(GPU, ""), (GPU, OFFERED), (OFFERED, OFFERED)])
def test_a_resource_is_known_by_its_name_before_and_after_it_is_renamed(name, rename):
    limits, warnings = found(config(MpsLimits(name, 30, 4096), rename=rename))
    assert limits == {rename or GPU: ClientLimits(30, 4096)}
    assert warnings == []


def test_what_is_not_shared_through_mps_is_told():
    limits, warnings = found(config(MpsLimits("nvidia.com/typo", 30), MpsLimits(GPU, 40)))
    assert limits == {GPU: ClientLimits(40)}
    assert warnings == [
        "extensions.mps.resources[0]: nvidia.com/typo is not shared through MPS on this node"
    ]


def test_the_first_entry_for_a_resource_counts():
    entries = MpsLimits(OFFERED, 30), MpsLimits(GPU, 40), MpsLimits(OFFERED, 50)
    limits, warnings = found(config(*entries, rename=OFFERED))
    assert limits == {OFFERED: ClientLimits(30)}
    assert warnings == [
        (
            "extensions.mps.resources[1]: without effect after extensions.mps.resources[0], "
            f"which is about {OFFERED} as well"
        )
    ]


def test_single_gpus_have_limits_under_the_name_that_they_are_offered_by():
    entry = GpuSharing(SharingStrategy.MPS, ("0",), replicas=2, rename="nvidia.com/gpu.mps")
    limits, warnings = found(config(MpsLimits("nvidia.com/gpu.mps", 80), sharing=(entry,)))
    assert limits == {"nvidia.com/gpu.mps": ClientLimits(80)}
    assert warnings == []


def test_gpus_are_found_by_index_and_by_uuid_which_comes_first():
    by_gpu = {"gpu-0": 7, "0": 8, "1": 9, "5": 10, "GPU-5": 11}
    limits, warnings = found(config(MpsLimits(GPU, memory_limit_by_gpu=by_gpu)))
    assert limits == {GPU: ClientLimits(memory_by_gpu={"GPU-0": 7, "GPU-1": 9})}
    assert warnings == [
        f"extensions.mps.resources[0].memoryLimitByGpu: this node has no GPU {reference}"
        for reference in ("5", "GPU-5")
    ]


def test_the_daemon_of_a_renamed_resource_gets_the_limits(caplog):
    given = config(MpsLimits(GPU, 30, 4096, {"1": 0, "9": 1}), rename=OFFERED)
    backend = SimulatedBackend.from_profile("t4x4")
    with caplog.at_level(logging.WARNING):
        (spec,) = DaemonReader(lambda: given, lambda _: backend).read().daemons
    assert spec.resource == OFFERED
    assert spec.thread_percentage == 30
    assert spec.memory_limits == ((0, 4096), (2, 4096), (3, 4096))
    assert "memoryLimitByGpu: this node has no GPU 9" in caplog.text
