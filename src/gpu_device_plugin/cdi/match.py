r"""Shell patterns as Go's `filepath.Match` understands them.

``*`` is any run of characters, also at the beginning of a hidden file's name, ``?`` is one
character, ``[a-z]`` one of a class, ``[^a-z]`` one not of it, a backslash takes the next
character literally. Names hold no slash: patterns are applied to one part of a path at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_MAGIC = re.compile(r"[*?\[\\]")


class PatternError(ValueError):
    """A pattern is malformed."""


def has_magic(pattern: str) -> bool:
    """Whether the text can match anything but itself."""
    return _MAGIC.search(pattern) is not None


def escape(text: str) -> str:
    """A pattern that matches only this text."""
    return _MAGIC.sub(lambda found: "\\" + found[0], text)


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name matches.

    Raises:
        PatternError: the pattern is malformed.
    """
    return _compile(pattern).fullmatch(name) is not None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match, in their order.

    Raises:
        PatternError: the pattern is malformed.
    """
    fits = _compile(pattern).fullmatch
    return [name for name in names if fits(name)]


@lru_cache(maxsize=512)
def _compile(pattern: str) -> re.Pattern[str]:
    first, *rest = _chunks(pattern)
    if not rest:
        return re.compile(first, re.DOTALL)
    # A run before a fixed text ends at that text's first place; trying later ones cannot help,
    # and with many stars would take for ever. Only the last run has to reach the end.
    middle = "".join(f"(?>.*?{chunk})" for chunk in rest[:-1])
    return re.compile(f"{first}{middle}.*{rest[-1]}", re.DOTALL)


def _chunks(pattern: str) -> list[str]:
    """Regular expressions of the parts between stars, each of fixed length."""
    chunks = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            chunks.append("")
            at += 1
        elif char == "?":
            chunks[-1] += "."
            at += 1
        elif char == "[":
            expression, at = _class(pattern, at + 1)
            chunks[-1] += expression
        else:
            literal, at = _literal(pattern, at)
            chunks[-1] += re.escape(literal)
    return chunks


def _literal(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\":
        at += 1
    if at == len(pattern):
        raise PatternError(f"pattern {pattern!r} ends with a backslash")
    return pattern[at], at + 1


def _class(pattern: str, at: int) -> tuple[str, int]:
    negated = pattern.startswith("^", at)
    at += negated
    ranges = ""
    count = 0
    while count == 0 or not pattern.startswith("]", at):
        low, at = _class_literal(pattern, at)
        high = low
        if pattern.startswith("-", at):
            high, at = _class_literal(pattern, at + 1)
        if low <= high:
            ranges += f"{re.escape(low)}-{re.escape(high)}"
        count += 1
    if not ranges:  # backward ranges only
        return ("." if negated else "(?!)"), at + 1
    return f"[{'^' if negated else ''}{ranges}]", at + 1


def _class_literal(pattern: str, at: int) -> tuple[str, int]:
    if at >= len(pattern) or pattern[at] in "-]":
        raise PatternError(f"pattern {pattern!r} has a malformed class")
    return _literal(pattern, at)
