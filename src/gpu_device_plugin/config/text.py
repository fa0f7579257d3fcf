"""Words of messages: every message is one line, whatever a user has written."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60  # characters of a user's value that a message repeats


def quote(text: str) -> str:
    """The text in double quotes, on one line, cut where it is long."""
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    return '"' + one_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def one_line(text: str) -> str:
    r"""The text with everything unprintable written as ``\n``, ``\x07`` or ``\u2028``."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def choices(words: Iterable[str], last: str = " or ") -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    *others, end = words
    return f"{', '.join(others)}{last}{end}" if others else end


def count(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; empty if none is near."""
    folded = {fold(name): name for name in known}
    if exact := folded.get(fold(word)):
        return exact
    import difflib  # noqa: PLC0415 - only needed once something is wrong

    near = difflib.get_close_matches(fold(word), folded, n=1, cutoff=0.75)
    return folded[near[0]] if near else ""


def fold(word: str) -> str:
    """A spelling that is common to ``deviceIDStrategy`` and ``device-id-strategy``."""
    return word.replace("-", "").replace("_", "").lower()
