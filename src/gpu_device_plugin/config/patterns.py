"""Patterns of ``resources``, in which ``*`` stands for anything (k8s-device-plugin, resources.go)."""

from __future__ import annotations


def matches(pattern: str, text: str, *, anchored: bool = True) -> bool:
    """Whether the text is what the pattern describes.

    ``*`` stands for any run of characters without a line break; all else stands for itself.

    Args:
        pattern: from the configuration.
        text: the name of a product or of a MIG profile.
        anchored: match the whole text, as v0.20.0 does; v0.19.3 looks for the pattern anywhere in
            it, so that ``1g.5gb`` also describes ``1g.5gb+me``.
    """
    first, *parts = pattern.split("*")
    starts = {0} if anchored else range(len(text) + 1)
    ends = {at + len(first) for at in starts if text.startswith(first, at)}
    for part in parts:
        ends = {at + len(part) for at in _within_lines(text, ends) if text.startswith(part, at)}
    return len(text) in ends if anchored else bool(ends)


def _within_lines(text: str, positions: set[int]) -> set[int]:
    """The positions that can be reached from the given ones without crossing a line break."""
    reached: set[int] = set()
    for position in sorted(positions):
        if position not in reached:
            end = text.find("\n", position)
            reached.update(range(position, (len(text) if end < 0 else end) + 1))
    return reached
