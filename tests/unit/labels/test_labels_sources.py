from __future__ import annotations

import pytest

from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.labels.catalog import descriptions
from gpu_device_plugin.labels.sources import GENERIC, Source


def test_a_platform_may_have_a_source_of_its_own() -> None:
    source = Source("`a` of {gpus}", tegra="b", vfio="c")
    words = {**GENERIC, "gpus": "GPU {0}`"}

    assert source.on(Platform.NVML, words) == "a of GPU {0}`"
    assert source.on(Platform.TEGRA, words) == "b"
    assert source.on(Platform.VFIO, words) == "c"
    assert source.summary() == "`a` of the GPUs; Tegra: b; vfio: c"


@pytest.mark.parametrize("platform", Platform)
def test_all_words_of_all_sources_are_known(platform: Platform) -> None:
    for item in descriptions():
        assert item.source.summary()
        assert item.source.on(platform, GENERIC)
