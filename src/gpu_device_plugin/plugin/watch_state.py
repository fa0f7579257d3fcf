"""How the watching of health is doing."""

from __future__ import annotations

from enum import StrEnum


class WatchState(StrEnum):
    """How far the watching of health has come."""

    OFF = "off"
    """Nothing is offered, or nothing counts by the policy."""
    SILENT = "no events on this platform"
    STARTING = "starting"
    BLIND = "the driver reports nothing"
    """The monitor tries again and again."""
    WATCHING = "watching"
    HELD = "the driver does not answer"
    """The monitor's thread is in a call of the driver that does not come back."""
    FAILED = "failed"
    """The monitor has ended by an error of the program."""
