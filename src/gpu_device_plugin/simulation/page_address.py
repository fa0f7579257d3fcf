"""Where a plugin serves its page and metrics, as its log tells."""

from __future__ import annotations

import re

FREE_LOOPBACK = "127.0.0.1:0"
"""A free port, for this machine alone."""

_SERVING = re.compile(r"serving (HTTPS?) at (\S*):(\d+): ")


def page_url(message: str) -> str:
    """The URL in a line of the plugin's log; empty if the line is another one."""
    found = _SERVING.match(message)
    if found is None:
        return ""
    host = found[2] or "127.0.0.1"
    return f"{found[1].lower()}://{host}:{found[3]}/"


def same_port(address: str, url: str) -> str:
    """The address to listen at next time, so that the page stays where it was.

    Args:
        address: as it was asked for; with port 0 any free port is meant.
        url: where the page was; empty if it was nowhere yet.
    """
    host, _, port = address.rpartition(":")
    if not url or port.strip("0"):
        return address
    return f"{host}:{url.rstrip('/').rpartition(':')[2]}"
