"""Label values of metrics: bounded in number and length, and fit to be encoded."""

from __future__ import annotations

from gpu_device_plugin.resources.xids import MEANINGS

OTHER = "other"
"""Stands for all values beyond the limit."""
EVERY_GPU = "all"
"""Stands for a GPU where something is about all of them."""
LONGEST = 128
"""Characters of a value."""


def label_text(text: str) -> str:
    """A text as a label value: of bounded length, and without what UTF-8 cannot encode.

    Quotes, backslashes and line feeds are left to the encoder. Bytes of a variable or a file name
    that are not UTF-8 reach us as lone surrogates, with which no scrape could be answered.
    """
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text.encode(errors="replace").decode()


class Names:
    """The values that a label has had; beyond the limit they count as `OTHER`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = dict[str, str]()

    def __call__(self, name: str) -> str:
        """The label value for a name."""
        known = self._known.get(name)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            return OTHER
        self._known[name] = text = label_text(name)
        return text


def xid_label(xid: int) -> str:
    """The number of an XID whose meaning is known; applications cannot make up others."""
    return str(xid) if xid in MEANINGS else OTHER
