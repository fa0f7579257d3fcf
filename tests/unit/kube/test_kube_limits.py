from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.kube.limiter import TokenBucket


def test_a_burst_passes_at_once_and_then_so_many_a_second() -> None:
    bucket = TokenBucket(5, 10)
    waits = [bucket.reserve(100.0) for _ in range(13)]

    assert waits[:10] == [0] * 10
    assert waits[10:] == pytest.approx([0.2, 0.4, 0.6])


def test_time_fills_the_bucket_up_to_the_burst() -> None:
    bucket = TokenBucket(2, 3)
    for _ in range(3):
        assert bucket.reserve(0.0) == 0

    assert bucket.reserve(1.0) == 0
    assert bucket.reserve(1.0) == 0
    assert bucket.reserve(1.0) == pytest.approx(0.5)
    assert [bucket.reserve(1000.0) for _ in range(4)] == pytest.approx([0, 0, 0, 0.5])


def test_zero_stands_for_the_defaults_and_less_for_no_limit() -> None:
    assert [TokenBucket(0, 0).reserve(0.0) for _ in range(1)] == [0]
    bucket = TokenBucket(-1, 1)
    assert all(bucket.reserve(0.0) == 0 for _ in range(100))


@given(
    st.floats(0.1, 1000),
    st.integers(1, 100),
    st.lists(st.floats(0, 0.5), min_size=1, max_size=200),
)
def test_no_more_pass_than_the_rate_allows(qps: float, burst: int, gaps: list[float]) -> None:
    bucket, now, passed = TokenBucket(qps, burst), 0.0, list[float]()
    for gap in gaps:
        now += gap
        passed.append(now + bucket.reserve(now))

    assert passed == sorted(passed)
    for first, start in enumerate(passed):
        within = sum(start <= moment < start + 1 for moment in passed[first:])
        assert within <= burst + qps + 1
