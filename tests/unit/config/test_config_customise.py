from __future__ import annotations

import pytest

from gpu_device_plugin.config.model import DeviceSelector, ResourcePattern, Resources
from gpu_device_plugin.config.testing import load_text

CURE = "unless extensions.honourNames is true"
NOT_NAMES = f"custom names (rename) are ignored (renameByDefault decides, {CURE})"
NOT_DEVICES = f"the selection of devices is ignored (all are shared, {CURE})"


@pytest.mark.parametrize("section", ["gpus", "mig"])
def test_custom_resources_are_dropped_with_a_warning(section: str) -> None:
    loaded = load_text(f"resources: {{{section}: [{{pattern: '*', name: x}}]}}")
    assert loaded.config.resources == Resources()
    assert [str(w) for w in loaded.warnings] == [
        f"f.yaml: resources: custom resource names are ignored ({CURE})"
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


@pytest.mark.parametrize("section", ["timeSlicing", "mps"])
def test_nothing_is_dropped_where_it_is_to_be_honoured(section: str) -> None:
    items = "[{name: gpu, replicas: 2, devices: [0], rename: slice}, {name: b, replicas: 3}]"
    text = f"""
        resources: {{gpus: [{{pattern: '*A100*', name: a100}}], mig: [{{pattern: '1g*', name: s}}]}}
        sharing: {{{section}: {{renameByDefault: true, resources: {items}}}}}
        extensions: {{honourNames: true}}
    """
    loaded = load_text(text)
    assert not loaded.warnings
    assert loaded.config.resources == Resources(
        (ResourcePattern("*A100*", "nvidia.com/a100"),), (ResourcePattern("1g*", "nvidia.com/s"),)
    )
    first, second = loaded.config.sharing.replicated.resources
    assert first.shared_name == "nvidia.com/slice"
    assert first.devices == DeviceSelector(all=False, references=("0",))
    assert second.shared_name == "nvidia.com/b.shared"


@pytest.mark.parametrize("value", ["false", "null"])
def test_no_honour_is_the_default(value: str) -> None:
    loaded = load_text(
        f"resources: {{gpus: [{{pattern: '*', name: x}}]}}\nextensions: {{honourNames: {value}}}"
    )
    assert loaded.config.resources == Resources()
    assert loaded.warnings


def test_bad_values_are_errors_even_though_they_would_be_dropped() -> None:
    with pytest.raises(Exception, match="rename"):
        load_text("sharing: {mps: {resources: [{name: gpu, replicas: 2, rename: _}]}}")
