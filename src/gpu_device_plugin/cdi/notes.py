"""Remarks that are made while specifications are generated."""

from __future__ import annotations


class Notes:
    """Collects remarks in their order, each once."""

    __slots__ = ("_problems", "_warnings")

    def __init__(self) -> None:
        self._warnings: dict[str, None] = {}
        self._problems: dict[str, None] = {}

    def warn(self, text: str) -> None:
        """Something is missing that containers can often do without."""
        self._warnings[text] = None

    def problem(self, text: str) -> None:
        """A device is left out or will not work."""
        self._problems[text] = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of."""
        return tuple(self._warnings)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with devices."""
        return tuple(self._problems)


def reason(error: Exception) -> str:
    """Why something failed, without the path, which the remark names anyway."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
