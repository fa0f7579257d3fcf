from __future__ import annotations

import pytest

from gpu_device_plugin.config.model import DeviceSelector, Resources
from gpu_device_plugin.config.testing import load_text

NOT_NAMES = "custom names (rename) are not supported (renameByDefault decides)"
NOT_DEVICES = "selecting devices is not supported (all devices are shared)"


@pytest.mark.parametrize("section", ["gpus", "mig"])
def test_custom_resources_are_dropped_with_a_warning(section: str) -> None:
    loaded = load_text(f"resources: {{{section}: [{{pattern: '*', name: x}}]}}")
    assert loaded.config.resources == Resources()
    assert [str(w) for w in loaded.warnings] == [
        "f.yaml: resources: custom resource names are not supported, ignored"
    ]


@pytest.mark.parametrize("text", ["resources: {gpus: [], mig: []}", "resources: {gpus: null}"])
def test_empty_ones_without(text: str) -> None:
    loaded = load_text(text)
    assert loaded.config.resources == Resources()
    assert not loaded.warnings


@pytest.mark.parametrize(
    ("section", "attribute"), [("timeSlicing", "time_slicing"), ("mps", "mps")]
)
@pytest.mark.parametrize(
    ("body", "rename", "messages"),
    [
        ("resources: [{name: gpu, replicas: 2}]", "", []),
        ("resources: [{name: gpu, replicas: 2, devices: all}]", "", []),
        ("resources: [{name: gpu, replicas: 2, rename: slice}]", "", [NOT_NAMES]),
        ("renameByDefault: true, resources: [{name: gpu, replicas: 2}]", ".shared", []),
        (
            "renameByDefault: true, resources: [{name: gpu, replicas: 2, rename: slice}]",
            ".shared",
            [NOT_NAMES],
        ),
        (
            "renameByDefault: true, resources: [{name: gpu, replicas: 2, rename: gpu.shared}]",
            ".shared",
            [],
        ),
        ("resources: [{name: gpu, replicas: 2, devices: 2}]", "", [NOT_DEVICES]),
        ("resources: [{name: gpu, replicas: 2, devices: [0]}]", "", [NOT_DEVICES]),
        ("resources: [{name: gpu, replicas: 2, devices: []}]", "", [NOT_DEVICES]),
        (
            (
                "resources: [{name: gpu, replicas: 2, devices: 1, rename: a}, "
                "{name: gpu, replicas: 3, devices: 2, rename: b}]"
            ),
            "",
            [NOT_NAMES, NOT_DEVICES],
        ),
    ],
)
def test_names_and_devices_of_shared_resources(
    section: str, attribute: str, body: str, rename: str, messages: list[str]
) -> None:
    loaded = load_text(f"sharing: {{{section}: {{{body}}}}}")
    resource = getattr(loaded.config.sharing, attribute).resources[0]
    assert resource.rename == (rename and "nvidia.com/gpu" + rename)
    assert resource.shared_name == "nvidia.com/gpu" + rename
    assert resource.devices == DeviceSelector()
    assert [str(w) for w in loaded.warnings] == [
        f"f.yaml: sharing.{section}: {message}" for message in messages
    ]


def test_each_section_has_its_own_warnings() -> None:
    section = "{resources: [{name: gpu, replicas: 2, devices: 1}]}"
    loaded = load_text(f"sharing: {{mps: {section}, timeSlicing: {section}}}")
    assert [w.place.path for w in loaded.warnings] == [
        "sharing.timeSlicing",
        "sharing.mps",
        "sharing.timeSlicing",
    ]


def test_bad_values_are_errors_even_though_they_would_be_dropped() -> None:
    with pytest.raises(Exception, match="rename"):
        load_text("sharing: {mps: {resources: [{name: gpu, replicas: 2, rename: _}]}}")
