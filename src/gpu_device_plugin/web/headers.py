"""The headers of every answer, and its compression."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping

from gpu_device_plugin.web.messages import Response

Headers = list[tuple[str, str]]

STRICT_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""Of what is no page: nothing may be loaded by it."""

ALWAYS: Mapping[str, str] = {
    # Each answer is of its moment, and may name pods.
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": STRICT_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}

WORTH_BYTES = 1024
"""From this size on an answer is compressed."""
LEVEL = 3
"""Costs a third of the usual one, for a tenth more bytes."""


def complete(response: Response, accepted: str) -> tuple[Headers, bytes]:
    """Headers and body as they are sent.

    Args:
        response: what is answered.
        accepted: value of the request's ``Accept-Encoding``.
    """
    body = response.body
    headers = {
        "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
        "Content-Type": response.content_type,
        **ALWAYS,
        **response.headers,
    }
    if response.may_be_compressed:
        headers["Vary"] = "Accept-Encoding"
        if len(body) >= WORTH_BYTES and takes_gzip(accepted):
            packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)
            body = packer.compress(body) + packer.flush()
            headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(body))
    return list(headers.items()), body


def takes_gzip(accepted: str) -> bool:
    """Whether an ``Accept-Encoding`` header asks for gzip; ``q=0`` refuses it."""
    weights = dict[str, bool]()
    for item in accepted.lower().split(","):
        name, _, rest = item.partition(";")
        key, _, weight = rest.partition("=")
        is_refused = key.strip() == "q" and not weight.strip().strip("0.")
        weights[name.strip()] = not is_refused
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))
