"""Sizes of memory, written as Kubernetes writes quantities: ``4Gi``, ``1.5G``, ``4294967296``."""

from __future__ import annotations

import re

from gpu_device_plugin.config.numbers import INT64_MAX

MEBIBYTE = 1024 * 1024
NO_LIMIT = "none"
EXAMPLES = f"such as 4Gi or 512Mi, 1Mi or more, a number of bytes, or {NO_LIMIT}"
"""What a message says is allowed."""
QUANTITY = r"([0-9]{1,30}(?:[.][0-9]{0,30})?|[.][0-9]{1,30})([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,2})?"
"""A quantity as a regular expression: its number and its unit."""

_EXPONENTS = {letter: power for power, letter in enumerate("KMGTPE", 1)}


def parse_mebibytes(text: str) -> int:
    """The size in whole MiB, rounded down; 0 for ``none`` and for 0, which are no limit.

    Raises:
        ValueError: it is no size, or one that no limit can have.
    """
    if text == NO_LIMIT:
        return 0
    found = re.fullmatch(QUANTITY, text)
    if found is None:
        raise ValueError("is not a size of memory")
    whole, _, fraction = found[1].partition(".")
    places: int = 10 ** len(fraction)
    size = int(whole + fraction) * _unit(found[2] or "") // places
    if size > INT64_MAX:
        raise ValueError("is too large")
    mebibytes = size // MEBIBYTE
    if not mebibytes and found[1].strip("0."):
        raise ValueError("is too small")
    return mebibytes


def format_mebibytes(mebibytes: int) -> str:
    """The size as it may stand in a file."""
    return f"{mebibytes}Mi" if mebibytes else NO_LIMIT


def _unit(suffix: str) -> int:
    if suffix.endswith("i"):
        return 1 << 10 * _EXPONENTS[suffix[0]]
    if suffix[1:].isdigit():
        return int(10 ** int(suffix[1:]))
    power: int = 1000 ** _EXPONENTS.get(suffix.upper(), 0)
    return power
