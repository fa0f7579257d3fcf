"""Times, durations, sizes and ranges as the page writes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.page_status import NOW

from gpu_device_plugin.status.page.words import (
    ago,
    clock,
    gpus_text,
    pci_text,
    size,
    span,
    time_tag,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (11_100, "3 h 5 min"),
        (86_400, "1 d"),
        (187_200, "2 d 4 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("before", "text"), [(-5, "just now"), (0.5, "just now"), (725, "12 min ago")]
)
def test_how_long_ago_something_was(before, text):
    assert ago(NOW - before, NOW) == text


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (742, "02:04:04"),
        (3 * 3600, "28 Nov 23:16:26"),
        (366 * 86400, "2024-11-28 02:16:26"),
    ],
)
def test_a_time_has_its_date_if_that_is_not_today(before, text):
    assert clock(NOW - before, NOW) == text


def test_programs_can_read_times():
    assert time_tag(NOW, NOW) == '<time datetime="2025-11-29T02:16:26Z">02:16:26</time>'


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True))
def test_no_number_is_too_strange_for_a_time(moment, now):
    assert clock(moment, now)
    if not (math.isnan(moment) or math.isnan(now)):
        assert ago(moment, now)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, ""),
        (-1, ""),
        (512 * 2**20, "512 MiB"),
        (40 * 2**30, "40 GiB"),
        (5_100_273_664, "4.8 GiB"),
        (150_754_820_096, "140 GiB"),
    ],
)
def test_a_size_is_short(amount, text):
    assert size(amount) == text


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([3], "GPU 3"),
        ([3, 3], "GPU 3"),
        ([0, 1], "GPUs 0, 1"),
        ([5, 0, 1, 2], "GPUs 0\N{EN DASH}2, 5"),
    ],
)
def test_gpus_are_named_by_ranges(indices, text):
    assert gpus_text(indices) == text


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("00000000:07:00.0", "07:00.0"),
        ("0000:07:00.0", "07:00.0"),
        ("0009:01:00.0", "0009:01:00.0"),
    ],
)
def test_a_pci_address_has_its_domain_if_that_says_something(address, text):
    assert pci_text(address) == text
