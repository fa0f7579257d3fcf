from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.kube.backoff import Backoff
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


def test_pauses_double_up_to_a_limit_and_begin_anew() -> None:
    backoff = Backoff(chance=lambda: 0.0)

    assert [backoff.next() for _ in range(8)] == pytest.approx(
        [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    )
    backoff.reset()
    assert backoff.next() == pytest.approx(0.8)
    assert backoff.next(at_least=7) == 7


def test_chance_only_makes_pauses_longer() -> None:
    assert Backoff(chance=lambda: 1.0).next() == pytest.approx(1.0)


def test_a_thousand_attempts_do_not_overflow() -> None:
    backoff = Backoff()

    assert all(0.8 <= backoff.next() <= 37.5 for _ in range(1500))
