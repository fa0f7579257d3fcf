"""MIG layouts: where the driver puts instances, and the numbers that they get."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Gpu, MigAttributes, MigDevice
from gpu_device_plugin.hardware.simulated.mig import capability_minors, make_devices, parse_layout
from gpu_device_plugin.hardware.simulated.products import Product, load_products

A100 = load_products()["NVIDIA A100-SXM4-40GB"]
GPU = Gpu(index=0, uuid="GPU-a", minor=1, name=A100.name)


def devices(*words: str, product: Product = A100) -> tuple[MigDevice, ...]:
    return make_devices(GPU, product, parse_layout(product, words))


@pytest.mark.parametrize(
    ("words", "instances"),
    [
        # The examples of the MIG user guide: -cgi 9,9 and -cgi 19,14,5.
        (["3g.20gb", "3g.20gb"], [1, 2]),
        (["1g.5gb", "2g.10gb", "4g.20gb"], [1, 5, 13]),
        (["7g.40gb"], [0]),
        (["1g.5gb"] * 7, [7, 8, 9, 10, 11, 12, 13]),
        (["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"], [2, 4, 7, 8]),
        (["4g.20gb", "3g.20gb"], [1, 2]),
        (["1g.10gb"] * 4, [3, 4, 5, 6]),
        ([], []),
    ],
)
def test_instances_get_the_places_and_ids_that_the_driver_gives(words, instances) -> None:
    assert [device.gpu_instance for device in devices(*words)] == instances


@pytest.mark.parametrize(
    "words",
    [
        ["4g.20gb", "4g.20gb"],
        ["7g.40gb", "1g.5gb"],
        ["3g.20gb", "3g.20gb", "1g.5gb"],
        ["1g.5gb"] * 8,
        ["2g.10gb"] * 4,
    ],
)
def test_what_does_not_fit_is_refused(words) -> None:
    with pytest.raises(ConfigError):
        devices(*words)


def test_a_device_has_all_that_nvml_tells() -> None:
    (device,) = devices("2g.10gb")

    assert str(device.profile) == "2g.10gb"
    assert device.attributes == MigAttributes(28, 2, 1, 0, 0, 0, 2, 2, 9856)
    assert device.memory_bytes == 9856 << 20
    assert device.uuid.startswith("MIG-")
    assert device.capability_minors == capability_minors(1, device.gpu_instance, 0)


def test_compute_instances_share_memory_and_engines() -> None:
    first, second = devices("3g.20gb:1c+2c")

    assert [str(d.profile) for d in (first, second)] == ["1c.3g.20gb", "2c.3g.20gb"]
    assert (first.gpu_instance, first.compute_instance) == (2, 0)
    assert (second.gpu_instance, second.compute_instance) == (2, 1)
    assert [d.attributes.multiprocessors for d in (first, second)] == [14, 28]
    assert first.memory_bytes == second.memory_bytes
    assert first.uuid != second.uuid


def test_capability_minors_are_those_of_the_drivers_table() -> None:
    # From /proc/driver/nvidia-caps/mig-minors, as the MIG user guide shows it.
    assert capability_minors(0, 0, 0) == (3, 4)
    assert capability_minors(0, 0, 2) == (3, 6)
    assert capability_minors(31, 14, 7)[1] == 4322


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_devices_of_any_layout_that_fits_are_distinct_and_small_enough(data) -> None:
    product = data.draw(st.sampled_from([p for p in load_products().values() if p.mig_slices]))
    names = [slice_.name for slice_ in product.mig_slices]
    words = data.draw(st.lists(st.sampled_from(names), max_size=7))
    try:
        layout = parse_layout(product, words)
    except ConfigError:
        assume(False)
    gpu = replace(GPU, name=product.name)
    made = make_devices(gpu, product, layout)

    assert len({device.uuid for device in made}) == len(made) == len(words)
    assert len({device.gpu_instance for device in made}) == len(made)
    assert sum(device.memory_bytes for device in made) <= product.memory_mib << 20
    assert [device.slot for device in made] == list(range(len(made)))
    assert sorted(str(device.profile) for device in made) == sorted(words)
