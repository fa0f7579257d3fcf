"""The driver's table of MIG capabilities, as specifications are made from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.hardware.mig_minors import parse_mig_minors

GOOD = "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n"


def test_both_capabilities_are_found() -> None:
    assert parse_mig_minors(GOOD).of(0, 1, 0) == (12, 13)
    assert parse_mig_minors(GOOD).of(0, 1, 1) is None
    assert parse_mig_minors(GOOD).of(1, 1, 0) is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "gpu0/gi1/access",
        "gpu0/gi1/access  7",
        " gpu0/gi1/access 7",
        "gpu0/gi1/access 7 8",
        "gpu0/gi1/access -7",
        "gpu0/gi1/access x",
        "gpux/gi1/access 7",
        "gpu0/gi1/ci0 7",
        "gpu0/gi1/access \u0667",
    ],
)
def test_other_lines_are_skipped(line: str) -> None:
    assert parse_mig_minors(f"{GOOD}{line}\n").of(0, 1, 0) == (12, 13)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    assert all(minor >= 0 for minor in parse_mig_minors(text).minors.values())


@given(st.dictionaries(st.tuples(st.integers(0, 31), st.integers(0, 14)), st.integers(0, 1 << 20)))
def test_what_the_driver_lists_is_found(table: dict[tuple[int, int], int]) -> None:
    text = "".join(
        f"gpu{gpu}/gi{gi}/access {minor}\ngpu{gpu}/gi{gi}/ci3/access {minor + 4}\n"
        for (gpu, gi), minor in table.items()
    )
    minors = parse_mig_minors(text)

    assert all(minors.of(gpu, gi, 3) == (m, m + 4) for (gpu, gi), m in table.items())
