"""Settings of CDI that are no part of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CdiSettings:
    """What only flags and variables decide over CDI specifications."""

    feature_flags: tuple[str, ...] = ()
    """``--cdi-feature-flags``."""
    disabled_hooks: tuple[str, ...] = ()
    """``--cdi-disable-hooks``."""
    directory: str = "/var/run/cdi"
