"""The preferred set is the plugin's, and the reasons given for it hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aio import run
from support.inventories import a_gpu, a_node

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.inspection.topology.choice import Choice, Request, choose
from gpu_device_plugin.inspection.topology.model import Topology, make_topology
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.resources.topology import TopologyAllocator

LEVELS = (0, 10, 20, 30, 40, 50, 7)
"""Those of NVML, and one that it does not have."""


@st.composite
def nodes(draw: st.DrawFn, most: int = 6) -> tuple[Inventory, Links]:
    """Any links between a few GPUs, whose indices have gaps; the ends need not agree."""
    count = draw(st.integers(2, most))
    indices = draw(st.lists(st.integers(0, 63), min_size=count, max_size=count, unique=True))
    pairs = [(a, b) for a in indices for b in indices if a != b]
    some_pairs = st.sampled_from(pairs)
    levels = draw(st.dictionaries(some_pairs, st.sampled_from(LEVELS)))
    nvlinks = draw(st.dictionaries(some_pairs, st.integers(1, 36), max_size=count))
    return a_node([a_gpu(index) for index in sorted(indices)]), Links(levels, nvlinks)


@st.composite
def requests(draw: st.DrawFn, most: int = 6) -> tuple[Inventory, Links, Request]:
    inventory, links = draw(nodes(most))
    everyone = range(len(inventory.gpus))
    available = draw(st.lists(st.sampled_from(everyone), min_size=1, unique=True))
    required = draw(st.lists(st.sampled_from(available), unique=True))
    size = draw(st.integers(max(1, len(required)), len(available)))
    return inventory, links, Request(tuple(available), tuple(required), size)


def divisions(gpus: tuple[int, ...], size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to divide GPUs into sets of a size, with what remains as a smaller set."""
    if not gpus:
        yield ()
        return
    first, others = gpus[0], gpus[1:]
    sizes = {size, len(gpus) % size} - {0}
    for part_size in sizes:
        for more in combinations(others, part_size - 1):
            part = (first, *more)
            rest = tuple(gpu for gpu in gpus if gpu not in part)
            for division in divisions(rest, size):
                if sum(len(each) < size for each in (part, *division)) <= 1:
                    yield part, *division


def best_total(topology: Topology, request: Request) -> int:
    """The highest total of a division that has all that is required in one full set."""
    required = set(request.required)
    return max(
        sum(map(topology.scores.within, division))
        for division in divisions(tuple(request.available), request.size)
        if any(len(part) == request.size and required.issubset(part) for part in division)
    )


# ------------------------------------------------------------------ the answer


@settings(deadline=None)
@given(requests())
def test_the_choice_is_that_of_the_allocator(case):
    inventory, links, request = case
    topology = make_topology(inventory, links)

    choice = choose(topology, request)

    allocator = TopologyAllocator(topology.scores)
    assert choice.chosen == allocator.prefer(request.available, request.required, request.size)
    assert choice.score == topology.scores.within(choice.chosen)


@settings(deadline=None)
@given(requests())
def test_the_choice_is_what_the_plugin_answers(case):
    inventory, links, request = case
    devices = tuple(
        Device(id=gpu.uuid, index=str(gpu.index), gpu_uuid=gpu.uuid, gpu_index=gpu.index)
        for gpu in inventory.gpus
    )
    plugin = LinkedGpus(inventory.gpus)
    plugin.set_links(links)
    uuids = [gpu.uuid for gpu in inventory.gpus]

    answer = run(
        plugin.prefer(
            Resource("nvidia.com/gpu", devices),
            [uuids[position] for position in request.available],
            [uuids[position] for position in request.required],
            request.size,
        )
    )

    choice = choose(make_topology(inventory, links), request)
    assert [uuids[position] for position in choice.chosen] == answer


# ------------------------------------------------------------------ the reasons


@settings(deadline=None)
@given(requests())
def test_no_division_has_a_higher_total(case):
    inventory, links, request = case
    topology = make_topology(inventory, links)

    choice = choose(topology, request)

    assert choice.is_exact
    assert choice.division.sets[0] == choice.chosen
    assert sorted(sum(choice.division.sets, ())) == sorted(request.available)
    assert choice.division.total == best_total(topology, request)


@settings(deadline=None)
@given(requests())
def test_the_sets_that_are_as_good_are_all_that_there_are(case):
    inventory, links, request = case
    topology = make_topology(inventory, links)
    within, total = topology.scores.within, best_total(topology, request)

    choice = choose(topology, request)

    expected = {
        frozenset(part)
        for division in divisions(tuple(request.available), request.size)
        if sum(map(within, division)) == total
        for part in division
        if len(part) == request.size and set(request.required).issubset(part)
        if within(part) == choice.score
    }
    assert choice.knows_all_equals
    assert {frozenset(part) for part in choice.equals} == expected - {frozenset(choice.chosen)}


@settings(deadline=None)
@given(requests())
def test_a_set_with_a_higher_score_costs_the_others_at_least_as_much(case):
    inventory, links, request = case
    topology = make_topology(inventory, links)

    choice = choose(topology, request)

    highest = max(
        topology.scores.within(part)
        for part in combinations(request.available, request.size)
        if set(request.required).issubset(part)
    )
    if choice.rival is None:
        assert choice.score == highest
    else:
        assert topology.scores.within(choice.rival.sets[0]) == highest > choice.score
        assert choice.rival.total <= choice.division.total


# ------------------------------------------------------------------ limits


def node(count: int, links: Mapping[tuple[int, int], int]) -> Topology:
    return make_topology(a_node(count), Links(nvlinks=links))


def choice_of(topology: Topology, size: int, required: Sequence[int] = ()) -> Choice:
    return choose(topology, Request(topology.offered, tuple(required), size))


def test_among_many_equal_gpus_all_equal_sets_are_counted():
    choice = choice_of(node(16, {}), 8)

    assert choice.knows_all_equals
    assert len(choice.equals) == 12_869


def test_with_too_many_sets_only_those_of_one_division_are_known():
    choice = choice_of(node(64, {}), 4)

    assert choice.is_exact
    assert not choice.knows_all_equals
    assert len(choice.equals) == 15


def test_an_irregular_mesh_of_many_gpus_is_not_searched_through():
    links = {(a, b): a * b % 5 + 1 for a, b in combinations(range(20), 2) if a * b % 3 == 1}

    choice = choice_of(node(20, links), 4, [19])

    assert not choice.is_exact
    assert not choice.knows_all_equals
    assert choice.equals == ()
    assert 19 in choice.chosen


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request((0, 1), (), 3), "3 GPUs cannot be chosen: available: 2"),
        (Request((), (), 1), "1 GPU cannot be chosen: none is available"),
        (Request((0, 1), (2, 3), 2), "GPU 2, 3 cannot be required: it is not available"),
        (Request((0, 1, 2), (0, 1), 1), "2 GPUs are required, but 1 asked for"),
    ],
)
def test_a_request_that_cannot_be_met_says_why(request_, message):
    with pytest.raises(ConfigError) as caught:
        choose(node(4, {}), request_)

    assert str(caught.value) == message
