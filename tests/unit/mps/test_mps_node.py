"""Reading what a node needs."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from support.configs import a_config, time_sliced

from gpu_device_plugin.config.model import Config, ReplicatedResource, ReplicatedResources, Sharing
from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.mps.node import DaemonReader
from gpu_device_plugin.mps.supervisor import Wanted

SHARED = Sharing(mps=ReplicatedResources(resources=(ReplicatedResource("nvidia.com/gpu", 4),)))


class Broken(SimulatedBackend):
    """A driver that cannot be used."""

    def __init__(self) -> None:
        pass

    def read(self):
        raise InitError("cannot initialise NVML")


def read(config: Config, backend: SimulatedBackend | None = None) -> Wanted:
    made = backend or SimulatedBackend.from_profile("t4x4")
    return DaemonReader(lambda: config, lambda _: made).read()


def with_mps(**flags: object) -> Config:
    return replace(a_config(**flags), sharing=SHARED)


def test_a_node_with_mps_needs_a_daemon(caplog):
    with caplog.at_level(logging.INFO):
        (spec,) = read(with_mps()).daemons
    assert spec.resource == "nvidia.com/gpu"
    assert len(spec.gpus) == 4
    assert '"pattern": "*"' in caplog.text


@pytest.mark.parametrize("sharing", [Sharing(), time_sliced(4)])
def test_without_mps_the_driver_is_not_touched(sharing):
    assert read(replace(a_config(), sharing=sharing), Broken()) == Wanted()


@pytest.mark.parametrize("flag", [None, True])
def test_a_driver_that_cannot_be_used_is_an_error(flag):
    with pytest.raises(InitError):
        read(with_mps(fail_on_init_error=flag), Broken())


def test_a_driver_may_be_waited_for():
    wanted = read(with_mps(fail_on_init_error=False), Broken())
    assert wanted == Wanted(problem="cannot initialise NVML")


def test_a_mig_strategy_that_is_none_is_named():
    with pytest.raises(ConfigError, match=r"mig-strategy: 'some' is not allowed .*MIG_STRATEGY"):
        read(with_mps(mig_strategy="some"))
