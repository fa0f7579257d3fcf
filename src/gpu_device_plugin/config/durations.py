"""Durations as Go writes them, and ``infinite`` (k8s-device-plugin v0.19.3, duration.go)."""

from __future__ import annotations

import re

INFINITE = 2**63 - 1
"""Nanoseconds that mean "for ever"; what ``infinite`` stands for."""

EXAMPLES = "such as 30s, 5m or 1h30m, or infinite"
"""What a message says is allowed."""

_LIMIT = 2**63
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,  # micro sign
    "\u03bcs": 10**3,  # Greek letter mu
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_TERM = r"([0-9]*)(\.[0-9]*)?([^0-9.]*)"


def parse_duration(text: str) -> int:
    """Nanoseconds of ``1h2m3.5s``, ``-1.5h``, ``0`` or ``infinite``.

    Raises:
        ValueError: the text is no duration, or one of more than 292 years.
    """
    if text == "infinite":
        return INFINITE
    negative = text.startswith("-")
    rest = text[1:] if text.startswith(("-", "+")) else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError("not a duration")
    total = 0
    while rest:
        term = re.match(_TERM, rest)
        assert term is not None  # noqa: S101 - every part of the expression is optional
        total += _nanoseconds(*term.groups(default=""))
        rest = rest[term.end() :]
    if total > _LIMIT or (total == _LIMIT and not negative):
        raise ValueError("too long a duration")
    return -total if negative else total


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    if not whole and len(fraction) < 2:
        raise ValueError("not a duration")
    if not unit:
        raise ValueError("a duration without a unit")
    if unit not in _UNITS:
        raise ValueError("a duration with an unknown unit")
    size = _UNITS[unit]
    if len(whole.lstrip("0")) > 19:
        raise ValueError("too long a duration")
    return int(whole or "0") * size + _part(fraction[1:], size)


def _part(digits: str, size: int) -> int:
    """The nanoseconds of a fraction; as in Go, through a double, less digits beyond 64 bits."""
    number, scale = 0, 1.0
    for digit in digits:
        longer = number * 10 + int(digit)
        if number > (_LIMIT - 1) // 10 or longer > _LIMIT:
            break
        number, scale = longer, scale * 10
    return int(float(number) * (size / scale))


def format_duration(nanoseconds: int) -> str:
    """The one way Go prints a duration: ``1m0s``, ``1h2m0s``, ``1.5s``, ``60ns``."""
    if nanoseconds == INFINITE:
        return "infinite"
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit in ("ns", "\u00b5s", "ms"):
        if rest < 1000 * _UNITS[unit]:
            return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, rest = divmod(rest, _UNITS["m"])
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest, _UNITS['s'])}s"


def _decimal(amount: int, unit: int) -> str:
    whole, part = divmod(amount, unit)
    if not part:
        return str(whole)
    return f"{whole}.{part:0{len(str(unit)) - 1}d}".rstrip("0")
