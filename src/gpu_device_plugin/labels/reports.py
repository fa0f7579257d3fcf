"""Problems in the log when they begin and when they end, not at every pass."""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger(__name__)

MOST_KEPT = 500
"""Messages that are remembered."""


class Reports:
    """What is wrong at present; told when it changes."""

    def __init__(self) -> None:
        self._known = dict[str, None]()

    def update(self, problems: Iterable[str]) -> None:
        """Takes all problems of a pass; logs those that are new, and those that are over."""
        now = dict.fromkeys(problems)
        for text in now:
            if text not in self._known:
                log.warning("%s", text)
        for text in self._known:
            if text not in now:
                log.info("no longer: %s", text)
        self._known = now


class SaidOnce(logging.Filter):
    """Lets each message of a logger pass once, where every pass would repeat it."""

    def __init__(self) -> None:
        super().__init__()
        self._said = set[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is new."""
        text = record.getMessage()
        if text in self._said:
            return False
        if len(self._said) < MOST_KEPT:
            self._said.add(text)
        return True

    def forget(self) -> None:
        """Lets everything pass once more, after a reload."""
        self._said.clear()
