from __future__ import annotations

import pytest

from gpu_device_plugin.config.model import (
    Config,
    DeviceListStrategy,
    Flags,
    PluginFlags,
    ReplicatedResource,
    ReplicatedResources,
    Sharing,
    SharingStrategy,
)
from gpu_device_plugin.config.options import PROGRAMS, Program

SHARED = ReplicatedResources(resources=(ReplicatedResource("nvidia.com/gpu", 2),))
WHOLE = ReplicatedResources(resources=(ReplicatedResource("nvidia.com/gpu", 1),))


@pytest.mark.parametrize(
    ("sharing", "strategy", "active"),
    [
        (Sharing(), SharingStrategy.NONE, ReplicatedResources()),
        (Sharing(WHOLE), SharingStrategy.NONE, WHOLE),
        (Sharing(SHARED), SharingStrategy.TIME_SLICING, SHARED),
        (Sharing(WHOLE, SHARED), SharingStrategy.MPS, SHARED),
        (Sharing(SHARED, WHOLE), SharingStrategy.TIME_SLICING, WHOLE),
    ],
)
def test_the_way_of_sharing(
    sharing: Sharing, strategy: SharingStrategy, active: ReplicatedResources
) -> None:
    assert sharing.strategy is strategy
    assert sharing.replicated == active


@pytest.mark.parametrize(
    ("names", "uses_cdi"),
    [
        (None, False),
        ((), False),
        (("envvar", "volume-mounts"), False),
        (("envvar", "cdi-cri"), True),
        (("cdi-annotations",), True),
    ],
)
def test_ways_to_list_devices(names: tuple[str, ...] | None, *, uses_cdi: bool) -> None:
    config = Config(flags=Flags(plugin=PluginFlags(device_list_strategy=names)))
    assert config.uses_cdi() is uses_cdi
    assert config.device_list_strategies == tuple(map(DeviceListStrategy, names or ()))


def test_unknown_ways_are_an_error() -> None:
    config = Config(flags=Flags(plugin=PluginFlags(device_list_strategy=("smoke",))))
    with pytest.raises(ValueError, match="smoke"):
        config.uses_cdi()


def test_an_unknown_option_is_a_programming_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        PROGRAMS[Program.DEVICE_PLUGIN].option("nonsense")
