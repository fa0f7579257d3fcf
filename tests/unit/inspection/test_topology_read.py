"""Which GPUs are looked at, and how users name them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.backends import ToldBackend
from support.configs import a_config, time_sliced
from support.inventories import a_gpu, a_node, cut_gpu

from gpu_device_plugin.config.model import Extensions, ResourcePattern, Resources
from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.inspection.topology.choice import Request, choose
from gpu_device_plugin.inspection.topology.data import to_json
from gpu_device_plugin.inspection.topology.groups import find_groups
from gpu_device_plugin.inspection.topology.model import Topology, make_topology
from gpu_device_plugin.inspection.topology.read import Survey, survey
from gpu_device_plugin.inspection.topology.select import (
    Indices,
    find_positions,
    parse_list,
    ranges,
)
from gpu_device_plugin.inspection.topology.words import group_name, named


def survey_of(inventory: Inventory | InitError, **flags: object) -> Survey:
    return survey(a_config(**flags), ToldBackend(inventory))


def offered(found: Survey) -> list[int]:
    return found.topology.indices(found.topology.offered)


# ------------------------------------------------------------------ what is offered


def test_whole_gpus_are_offered():
    found = survey_of(a_node(3))

    assert offered(found) == [0, 1, 2]
    assert found.topology.resource == "nvidia.com/gpu"
    assert found.notes == ()


def test_gpus_cut_into_mig_devices_are_not():
    found = survey_of(a_node([a_gpu(0), cut_gpu(2, 1, 1), a_gpu(5)]), mig_strategy="mixed")

    assert offered(found) == [0, 5]
    assert found.topology.count == 3


def test_among_shared_gpus_links_decide_nothing():
    config = replace(a_config(), sharing=time_sliced(4))

    found = survey(config, ToldBackend(a_node(2)))

    assert offered(found) == []
    assert found.notes == ("no resource offers whole, unshared GPUs: the links decide nothing",)


def test_of_several_resources_the_largest_counts():
    config = replace(
        a_config(),
        resources=Resources(gpus=(ResourcePattern("*T4*", "nvidia.com/t4"),)),
        extensions=Extensions(honour_names=True),
    )
    gpus = [a_gpu(0, name="Tesla T4"), a_gpu(1), a_gpu(2)]

    found = survey(config, ToldBackend(a_node(gpus)))

    assert found.topology.resource == "nvidia.com/gpu"
    assert offered(found) == [1, 2]
    assert found.notes == (
        "the GPUs of nvidia.com/gpu are chosen among; --available names those of nvidia.com/t4",
    )


def test_a_plan_that_fails_is_told_and_hides_nothing():
    found = survey_of(a_node([a_gpu(0), cut_gpu(1, 1)]), mig_strategy="single")

    assert offered(found) == [0, 1]
    assert found.topology.resource == ""
    assert "the plugin would offer nothing: the MIG strategy 'single'" in found.notes[0]


def test_a_driver_that_cannot_be_used_is_an_error():
    with pytest.raises(InitError, match="Driver Not Loaded"):
        survey_of(InitError("Driver Not Loaded"))


def test_links_that_cannot_be_read_are_a_problem_only():
    class Unlinked(ToldBackend):
        def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:  # noqa: ARG002
            raise InitError("busy")

    topology = survey(a_config(), Unlinked(a_node(2))).topology

    assert topology.problems == ("links are not known: busy",)
    assert [pair.word for pair in topology.pairs()] == ["?"]


# ------------------------------------------------------------------ links


def test_ends_that_do_not_agree_count_as_the_plugin_counts_them():
    inventory = a_node([a_gpu(3), a_gpu(7)])
    links = Links({(3, 7): 50, (7, 3): 20}, {(3, 7): 1, (7, 3): 4})

    (pair,) = make_topology(inventory, links).pairs()

    assert (pair.word, pair.ancestor, pair.score) == ("NV4", "PXB", 440)


def test_more_links_than_score_are_shown():
    (pair,) = make_topology(a_node(2), Links({(0, 1): 0}, {(0, 1): 36})).pairs()

    assert (pair.word, pair.ancestor, pair.score) == ("NV36", "PSB", 1860)


def test_links_to_gpus_that_are_not_there_and_to_oneself_do_not_count():
    links = Links({(0, 9): 10, (0, 0): 10}, {(9, 0): 1, (1, 1): 2})

    (pair,) = make_topology(a_node(2), links).pairs()

    assert (pair.word, pair.score) == ("?", 0)


# ------------------------------------------------------------------ groups


def groups(topology: Topology) -> list[str]:
    root = find_groups(topology)
    found = [] if root is None else [group for _, group in root.walk()]
    return [f"{group_name(group)}: {named(topology, group.gpus)}" for group in found]


def test_without_links_numa_nodes_are_groups():
    gpus = [a_gpu(index, numa_node=node) for index, node in enumerate((1, 0, 1, 0, None))]

    assert groups(make_topology(a_node(gpus), Links())) == [
        "?: 0-4",
        "NUMA 1: 0, 2",
        "NUMA 0: 1, 3",
    ]


def test_a_group_across_numa_nodes_is_not_joined_with_others_on_them():
    gpus = [a_gpu(index, numa_node=node) for index, node in enumerate((0, 1, 1))]
    levels = {(0, 1): 40, (0, 2): 50, (1, 2): 50}

    assert groups(make_topology(a_node(gpus), Links(levels))) == ["SYS 10: 0-2", "NODE 20: 0, 1"]


# ------------------------------------------------------------------ data


def test_data_numbers_gpus_as_nvml_does():
    backend = SimulatedBackend.from_profile("dgx-1")
    backend.node.lose(2)
    inventory = backend.read()
    topology = make_topology(inventory, backend.read_links(inventory, lambda: False), source="x")
    at = {gpu.index: position for position, gpu in enumerate(topology.gpus)}
    choice = choose(topology, Request(topology.offered, (at[7],), 3))

    data = json.loads(to_json(topology, choice))

    assert [gpu["index"] for gpu in data["gpus"]] == [0, 1, 3, 4, 5, 6, 7]
    assert data["links"][2] == {
        "gpus": [0, 4],
        "link": "NV2",
        "ancestor": "SYS",
        "nvlinks": 2,
        "score": 210,
    }
    assert data["scores"][0] == [0, 150, 230, 210, 10, 10, 10]
    assert data["groups"]["groups"][0]["gpus"] == [0, 1, 3]
    assert 7 in data["choice"]["gpus"]
    assert data["choice"]["division"][0]["gpus"] == data["choice"]["gpus"]
    assert sum(part["score"] for part in data["choice"]["division"]) == data["choice"]["total"]
    assert data["problems"] == [f"GPU 2 cannot be read: {inventory.unreadable[0].reason}"]


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("0", (Indices(0, 0),)),
        ("3,0-2", (Indices(3, 3), Indices(0, 2))),
        (" 1 , GPU-5fc559a5 ", (Indices(1, 1), "GPU-5fc559a5")),
    ],
)
def test_lists(text, items):
    assert parse_list(text) == items


@pytest.mark.parametrize(
    "text", ["", ",", "1,", "a", "-1", "1-", "3-1", "GPU-", "MIG-1", "1000", "٣"]
)
def test_what_is_no_list(text):
    with pytest.raises(ValueError, match=r"is none of|goes downwards"):
        parse_list(text)


def test_gpus_are_found_by_index_and_uuid_each_once():
    gpus = [a_gpu(0), a_gpu(3), a_gpu(31)]

    assert find_positions(parse_list("GPU-31,3,GPU-3,GPU-0"), gpus) == (2, 1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-1", "this node has no GPU 1 (it has 0, 3, 31)"),
        ("GPU-7", 'this node has no GPU "GPU-7" (it has 0, 3, 31)'),
        ("GPU-A", 'the UUIDs of 2 GPUs begin with "GPU-A"'),
    ],
)
def test_gpus_that_are_not_there(text, message):
    gpus = [a_gpu(0, uuid="GPU-ab"), a_gpu(3, uuid="GPU-ac"), a_gpu(31)]

    with pytest.raises(ConfigError) as caught:
        find_positions(parse_list(text), gpus)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([1, 0], "0, 1"), ([2, 1, 0, 5, 7, 8, 9, 9], "0-2, 5, 7-9")],
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text
