"""Preferred allocation of replicas and MIG devices."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.model import AllocationPolicy
from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.resources.model import Device, Resource, split_id
from gpu_device_plugin.resources.spreading import prefer_replicas

DISTRIBUTED, PACKED = AllocationPolicy.DISTRIBUTED, AllocationPolicy.PACKED


def shared(**replicas: int) -> Resource:
    """GPUs named by letters with that many replicas each."""
    devices = tuple(
        Device(id=name, index=str(n), gpu_uuid=name, gpu_index=n, replicas=count)
        for n, (name, count) in enumerate(replicas.items())
    )
    return Resource("nvidia.com/gpu", devices)


def per_gpu(ids: list[str]) -> dict[str, int]:
    return dict(Counter(split_id(i)[0] for i in ids))


@pytest.mark.parametrize(
    ("replicas", "in_use", "required", "size", "distributed", "packed"),
    [
        ({"A": 4, "B": 4}, [], [], 2, {"A": 1, "B": 1}, {"A": 2}),
        ({"A": 4, "B": 4}, [], [], 5, {"A": 3, "B": 2}, {"A": 4, "B": 1}),
        ({"A": 4, "B": 4}, ["A::0"], [], 2, {"A": 1, "B": 1}, {"A": 2}),
        ({"A": 4, "B": 4}, [], ["A::0"], 3, {"A": 2, "B": 1}, {"A": 3}),
        ({"A": 4, "B": 2}, ["A::0", "A::1"], [], 3, {"A": 1, "B": 2}, {"A": 2, "B": 1}),
        ({"A": 4, "B": 4}, [], ["B::3", "B::1"], 1, {"B": 2}, {"B": 2}),
        ({"A": 2, "B": 2, "C": 2}, [], [], 6, {"A": 2, "B": 2, "C": 2}, {"A": 2, "B": 2, "C": 2}),
    ],
)
def test_the_measured_distributions_come_out(replicas, in_use, required, size, distributed, packed):
    resource = shared(**replicas)
    available = [i for i in resource.ids() if i not in in_use]

    assert per_gpu(prefer_replicas(resource, available, required, size)) == distributed
    assert per_gpu(prefer_replicas(resource, available, required, size, PACKED)) == packed


def test_required_ids_come_first_and_the_lowest_numbers_after_them():
    resource = shared(A=3, B=3)

    got = prefer_replicas(resource, list(resource.ids())[::-1], ["B::2"], 3)

    assert got == ["B::2", "A::0", "B::0"]


def test_too_few_devices_are_an_error_that_tells_the_numbers():
    resource = shared(A=2)

    with pytest.raises(RequestError, match=r"nvidia.com/gpu.*3 are needed, 2 are there"):
        prefer_replicas(resource, ["A::0", "A::1", "A::7", "B::0", "A::01"], [], 3)


def test_repeated_required_ids_count_once():
    resource = shared(A=4, B=4)

    got = prefer_replicas(resource, ["A::0", "A::1", "B::1"], ["A::0", "A::0"], 3)

    assert sorted(got) == ["A::0", "A::1", "B::1"]


def test_unknown_required_ids_are_kept_as_they_are():
    resource = shared(A=2)

    assert prefer_replicas(resource, ["A::0"], ["nobody"], 2) == ["nobody", "A::0"]


def test_mig_devices_spread_over_gpus_and_pack_onto_them():
    devices = tuple(
        Device(id=f"M{g}{s}", index=f"{g}:{s}", gpu_uuid=f"G{g}", gpu_index=g, mig_instances=(s, 0))
        for g in range(2)
        for s in range(3)
    )
    resource = Resource("nvidia.com/mig-1g.5gb", devices)
    available = [i for i in resource.ids() if i != "M00"]

    assert prefer_replicas(resource, available, [], 2) == ["M01", "M10"]
    assert Counter(i[1] for i in prefer_replicas(resource, available, [], 3)) == {"0": 1, "1": 2}
    assert prefer_replicas(resource, available, [], 2, PACKED) == ["M01", "M02"]


counts = st.dictionaries(st.sampled_from("ABCDEFGH"), st.integers(1, 9), min_size=1)


@given(counts, st.data())
def test_an_answer_holds_what_was_asked_for_and_nothing_twice(replicas, data):
    resource = shared(**replicas)
    ids = list(resource.ids())
    available = data.draw(st.lists(st.sampled_from(ids), unique=True))
    required = data.draw(st.lists(st.sampled_from(available), unique=True)) if available else []
    size = data.draw(st.integers(len(required), max(len(available), len(required))))
    policy = data.draw(st.sampled_from(list(AllocationPolicy)))

    got = prefer_replicas(resource, available, required, size, policy)

    assert len(got) == size
    assert len(set(got)) == size
    assert set(got) <= set(available)
    assert got[: len(required)] == required


@given(counts, st.data())
def test_every_pick_is_the_one_that_the_greedy_rule_makes(replicas, data):
    """The levels that are computed at once are those of picking one by one."""
    resource = shared(**replicas)
    ids = list(resource.ids())
    available = data.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1))
    size = data.draw(st.integers(1, len(available)))
    policy = data.draw(st.sampled_from(list(AllocationPolicy)))
    free = Counter(split_id(i)[0] for i in available)
    taken = {name: replicas[name] - free[name] for name in replicas}
    picked = Counter[str]()
    sign = 1 if policy is DISTRIBUTED else -1

    for _ in range(size):
        best = min(
            (name for name in replicas if free[name] > picked[name]),
            key=lambda n: (
                sign * (taken[n] + picked[n]),
                picked[n],
                sign * (taken[n] + picked[n]),
                list(replicas).index(n),
            ),
        )
        picked[best] += 1

    got = prefer_replicas(resource, available, [], size, policy)
    assert per_gpu(got) == {name: n for name, n in picked.items() if n}
