"""Listeners, and calls that are timed."""

from __future__ import annotations

import pytest

from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.telemetry import (
    Answered,
    Call,
    Happening,
    ListSent,
    Outcome,
    everyone,
    nobody,
    timed,
)


def test_everyone_is_told_in_turn():
    told = list[tuple[str, Happening]]()
    tell = everyone(lambda h: told.append(("a", h)), nobody, lambda h: told.append(("b", h)))
    happening = ListSent("nvidia.com/gpu")
    tell(happening)
    assert told == [("a", happening), ("b", happening)]


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (None, Outcome.OK),
        (RequestError("unknown device"), Outcome.REFUSED),
        (ZeroDivisionError(), Outcome.FAILED),
        (KeyboardInterrupt(), Outcome.FAILED),
    ],
)
def test_a_call_is_told_with_how_it_ended(raised, outcome):
    told = list[Happening]()

    def call() -> None:
        with timed(told.append, Call.PREFER, "nvidia.com/gpu", RequestError):
            if raised is not None:
                raise raised

    if raised is None:
        call()
    else:
        with pytest.raises(type(raised)):
            call()
    (answered,) = told
    assert isinstance(answered, Answered)
    assert (answered.call, answered.resource) == (Call.PREFER, "nvidia.com/gpu")
    assert answered.outcome is outcome
    assert answered.seconds > 0
