"""Numbers as Go reads them, with its prefixes and underscores (strconv.ParseInt with base 0)."""

from __future__ import annotations

import math
import re

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1

# Not compiled here: most starts need neither, and compiling takes a millisecond.
_INTEGER = (
    r"(?P<sign>[+-]?)(?:"
    r"0[xX](?P<b16>(?:_?[0-9a-fA-F])+)|"
    r"0[bB](?P<b2>(?:_?[01])+)|"
    r"0[oO]?(?P<b8>(?:_?[0-7])+)|"
    r"(?P<b10>0|[1-9](?:_?[0-9])*))"
)
_FLOAT = r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)"
_LONGEST = 100  # digits; anything with more is out of range, and Python would be slow with it


def parse_integer(text: str) -> int:
    """The integer, of any size: ``10``, ``-5``, ``0x1F``, ``0o17``, ``017``, ``0b11``, ``1_000``.

    Raises:
        ValueError: the text is no integer.
    """
    match = re.fullmatch(_INTEGER, text)
    if match is None:
        raise ValueError("not an integer")
    base = match.lastgroup or ""
    digits = match[base].replace("_", "").lstrip("0") or "0"
    number = int(digits, int(base[1:])) if len(digits) <= _LONGEST else UINT64_MAX + 1
    return -number if match["sign"] == "-" else number


def parse_int64(text: str) -> int:
    """An integer of 64 bits; raises ValueError if the text is none."""
    number = parse_integer(text)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError("too large an integer")
    return number


def parse_float(text: str) -> float:
    """A number such as ``5``, ``2.5`` or ``1e3``; raises ValueError if the text is none."""
    if not re.fullmatch(_FLOAT, text, re.IGNORECASE):
        raise ValueError("not a number")
    number = float(text)
    if math.isinf(number) and "i" not in text.lower():
        raise ValueError("too large a number")
    return number


def whole(value: object) -> int | None:
    """The number, if the value is a whole one; 4.0 is, true is not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
