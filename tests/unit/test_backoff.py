"""Pauses between attempts."""

from __future__ import annotations

import pytest

from gpu_device_plugin.backoff import Backoff


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
