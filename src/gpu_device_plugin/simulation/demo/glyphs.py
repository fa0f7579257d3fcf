"""What the terminal of a demonstration can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from gpu_device_plugin.simulation.demo.view import ASCII, UNICODE, Glyphs


def is_capable(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal that pictures can be drawn on."""
    if environ.get("NO_COLOR") or environ.get("TERM", "dumb") in {"", "dumb", "unknown"}:
        return False
    return stream.isatty()


def glyphs_of(stream: TextIO) -> Glyphs:
    """The signs that a stream's encoding has."""
    try:
        UNICODE.all().encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
