"""What goes wrong again and again is said once for as long as it does."""

from __future__ import annotations


class News:
    """What was said last of one thing that can go wrong.

    ::

        if news.is_new(problem):
            log.warning("%s; trying again", problem)

    Whoever sees that nothing is wrong any more calls `end`, so that the same fault is news later.
    """

    def __init__(self) -> None:
        self._last = ""

    def is_new(self, text: str) -> bool:
        """Whether this is another text than the last one; it is the last one from now on."""
        before, self._last = self._last, text
        return text != before

    def end(self) -> bool:
        """Nothing is wrong now; returns whether something was."""
        before, self._last = self._last, ""
        return bool(before)
