"""``extensions.mps`` as typed values; the rest of the configuration is in the module ``model``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MpsLimits:
    """An entry of ``extensions.mps.resources``; the first one for a resource decides over it."""

    name: str
    """The resource, as it is offered or as it is called before it is renamed."""
    active_thread_percentage: int | None = None
    """None for an equal share."""
    memory_limit: int | None = None
    """MiB on every GPU; 0 for no limit, None for an equal share."""
    memory_limit_by_gpu: Mapping[str, int] = field(default_factory=dict)
    """The same on single GPUs, by index or UUID."""


@dataclass(frozen=True, slots=True)
class MpsSettings:
    """``extensions.mps``."""

    resources: tuple[MpsLimits, ...] = ()
