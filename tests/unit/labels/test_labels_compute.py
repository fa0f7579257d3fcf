from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator

import pytest
from support.configs import time_sliced
from support.labels import facts_of, gfd_config, is_label_value, mps

from gpu_device_plugin.config.model import Config, Sharing
from gpu_device_plugin.hardware.fabric import Fabric
from gpu_device_plugin.hardware.node_facts import NodeFacts, open_source
from gpu_device_plugin.hardware.simulated.profile import built_in_names
from gpu_device_plugin.hardware.vgpu import HostDriver, Vgpus
from gpu_device_plugin.labels.catalog import describe, descriptions
from gpu_device_plugin.labels.compute import LABELERS, make_labels
from gpu_device_plugin.labels.keys import PREFIX
from gpu_device_plugin.labels.model import Facts, Finding, Label, Labeler, Problem

CONFIG = gfd_config()
STRATEGIES = ("none", "single", "mixed")
SHARING: dict[str, Sharing] = {
    "none": Sharing(),
    "time-slicing": time_sliced(4),
    "renamed": time_sliced(4, rename="nvidia.com/gpu.shared"),
    "profile": time_sliced(4, name="nvidia.com/mig-1g.5gb"),
    "mps": mps(3),
}
PROFILES = [name for name in built_in_names() if name != "no-driver"]
"""Of simulated nodes that can be read."""


def crash(_: Config, __: Facts) -> Iterator[Finding]:
    yield Label("before", "it")
    raise ZeroDivisionError


@pytest.mark.parametrize("number", range(len(LABELERS)))
def test_a_labeler_that_crashes_costs_only_its_own_labels(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    facts = facts_of(2, timestamp=1)
    whole = {label.key: label for label in make_labels(CONFIG, facts).labels}
    bad = LABELERS[number]
    labelers = [*LABELERS]
    labelers[number] = Labeler(bad.name, crash, bad.needs_devices)
    result = make_labels(CONFIG, facts, labelers)

    rest = {key: label for key, label in whole.items() if label.source != bad.name}
    found = {label.key: label for label in result.labels}
    assert found.pop("before").source == bad.name
    assert found == rest
    assert f"the labels of {bad.name} cannot be made" in result.failures()
    assert caplog.records[0].levelno == logging.ERROR


def test_of_labels_with_one_key_the_last_counts() -> None:
    def say(value: str | None) -> Labeler:
        return Labeler(f"says {value}", lambda _, __: iter([Label("key", value)]))

    def result(*values: str | None) -> list[tuple[str | None, str]]:
        found = make_labels(CONFIG, facts_of(1), [say(value) for value in values]).labels
        return [(label.value, label.source) for label in found]

    assert result("a", "b") == [("b", "says b")]
    assert result("a", None) == []
    assert result(None, "b") == [("b", "says b")]


def test_what_no_label_can_be_is_left_out_or_mended() -> None:
    given = {"good": "x", "long": "y" * 70, "edges": "-z-", "signs": "--", "_bad_key": "v"}
    given["k" * 64] = "v"
    labeler = Labeler("one", lambda _, __: iter([Label(k, v) for k, v in given.items()]))
    result = make_labels(CONFIG, facts_of(1), [labeler])

    assert result.published() == {
        "nvidia.com/edges": "z",
        "nvidia.com/good": "x",
        "nvidia.com/long": "y" * 63,
    }
    assert len(result.problems) == 3


def test_problems_are_kept_with_failures_told_apart() -> None:
    def find(_: Config, __: Facts) -> Iterator[Finding]:
        yield Problem("odd")
        yield Problem("bad", is_failure=True)

    result = make_labels(CONFIG, facts_of(1), [Labeler("one", find)])

    assert [problem.text for problem in result.problems] == ["odd", "bad"]
    assert result.failures() == ("bad",)


def simulated(profile: str) -> NodeFacts:
    return open_source("", profile).read()


@pytest.mark.parametrize("profile", PROFILES)
def test_on_every_simulated_node_all_labels_are_described_and_valid(profile: str) -> None:
    node = simulated(profile)
    facts = Facts(node, machine=node.machine, vgpus=Vgpus(), timestamp=1)
    for mig, sharing in itertools.product(STRATEGIES, SHARING.values()):
        result = make_labels(gfd_config(mig, sharing), facts)
        assert not result.failures()
        for label in result.labels:
            assert describe(label.key) is not None, label
            assert label.value is not None
            assert is_label_value(label.value), label
            assert label.full_key == PREFIX + label.key
            assert label.source
        keys = [label.key for label in result.labels]
        assert keys == sorted(set(keys))


def test_every_label_that_is_described_is_made_somewhere() -> None:
    made = set[str]()
    fabric = {0: Fabric("5f4dcc3b-5aa7-65d6-1d83-27deb882cf99", 1)}
    vgpus = Vgpus(present=True, host_driver=HostDriver("550.90.05", "r550_90"))
    for profile, mig in itertools.product(("dgx-a100-mig", "dgx-a100-mig-single"), STRATEGIES):
        node = simulated(profile)
        node = NodeFacts(node.inventory, node.pci_classes, fabric)
        facts = Facts(node, machine="x", vgpus=vgpus, timestamp=1)
        made |= {label.key for label in make_labels(gfd_config(mig), facts).labels}

    missing = [d.key for d in descriptions() if not any(map(d.matches, made))]
    assert not missing


def test_descriptions_are_whole_and_tell_profiles_apart() -> None:
    keys = [item.key for item in descriptions()]
    assert len(keys) == len(set(keys))
    for item in descriptions():
        assert item.meaning.endswith("."), item
        assert item.source.usual
        assert item.when
        assert is_label_value(item.example)
        assert not item.replaced_by or describe(item.replaced_by) is not None
    found = describe("mig-1g.5gb.me.engines.copy")
    assert found is not None
    assert found.key == "mig-PROFILE.engines.copy"
    assert describe("mig-.count") is None
    assert describe("gpu.unheard-of") is None
