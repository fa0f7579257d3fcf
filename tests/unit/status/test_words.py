"""Times, sizes and names as tables write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.status.model import Holder, Illness
from gpu_device_plugin.status.words import (
    cause,
    course,
    duration,
    holder_list,
    holder_names,
    is_named,
    memory,
    number_ranges,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h 0 min"),
        (86399, "23 h 59 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, ""), (5 * 2**30, "5.0 GiB"), (40 * 2**30 + 7, "40 GiB")]
)
def test_sizes(size, text):
    assert memory(size) == text


def test_an_illness_is_told_with_meaning_and_course():
    illness = Illness("XID 79", "GPU has fallen off the bus", "until-reset", 1000, 1200, 3)

    assert cause(illness) == "XID 79: GPU has fallen off the bus"
    text = course(illness, 1180)
    assert text.startswith("until it is reset, since 3 min (1970-01-0")
    assert text.endswith("), 3 times")


def test_an_illness_of_which_nothing_is_known_is_told_without():
    illness = Illness("it does not answer", "", "", 0, 0, 0)

    assert cause(illness) == "it does not answer"
    assert not course(illness, 1180)
    assert not cause(None)


@pytest.mark.parametrize(
    ("wanted", "is_meant"),
    [
        ("", True),
        ("gpu", True),
        ("nvidia.com/gpu", True),
        ("gpu.shared", False),
        ("nvidia.com", False),
    ],
)
def test_resources_can_be_named_without_their_prefix(wanted, is_meant):
    assert is_named("nvidia.com/gpu", wanted) is is_meant


def test_the_container_is_named_where_the_pod_alone_does_not_tell():
    holders = [
        Holder("ml", "a", "one", (0, 1, 2, 5)),
        Holder("ml", "a", "two", (3,)),
        Holder("ml", "b", "main"),
    ]

    assert [*holder_names(holders)] == ["ml/a/one [0-2,5]", "ml/a/two [3]", "ml/b"]


def test_a_pod_that_holds_several_devices_of_a_gpu_is_named_once():
    holder = Holder("ml", "train", "main")

    assert holder_list([holder, holder]) == "ml/train"


def test_only_the_first_of_many_holders_are_named():
    holders = [Holder("ml", f"pod-{n}", "main", (n,)) for n in range(6)]

    assert holder_list(holders) == "ml/pod-0 [0], ml/pod-1 [1], ml/pod-2 [2] and 3 more"
    assert holder_list(holders[:3]) == "ml/pod-0 [0], ml/pod-1 [1], ml/pod-2 [2]"
    assert not holder_list([])


@settings(deadline=None)
@given(st.sets(st.integers(0, 300)))
def test_ranges_tell_every_number_once(numbers):
    found = list[int]()
    for part in filter(None, number_ranges(numbers).split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)

    assert found == sorted(numbers)
