"""What comes back from an API server, made sense of."""

from __future__ import annotations

import json
import math
from typing import Any

from gpu_device_plugin.kube.connection import Head, Request
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable
from gpu_device_plugin.kube.shapes import text

JsonObject = dict[str, Any]

LONGEST_WAIT = 120.0
"""Seconds of a ``Retry-After`` that are honoured."""


def refusal(request: Request, head: Head, body: bytes) -> ApiError:
    """The error that an answer stands for; its body mostly is a Status object."""
    status = _parsed(body)
    if not isinstance(status, dict):
        status = {"message": body[:500].decode("utf-8", "replace")}
    return ApiError(
        str(request),
        head.status,
        text(status, "reason"),
        text(status, "message"),
        retry_after=_wait(head.headers.get("retry-after", "0")),
    )


def decoded(request: Request, body: bytes) -> JsonObject:
    """The object that a body is."""
    item = _parsed(body)
    if not isinstance(item, dict):
        raise ApiUnreachable(f"{request}: the answer is no JSON object; is this a Kubernetes API?")
    return item


def _parsed(body: bytes) -> object:
    """What a body is as JSON; None if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _wait(header: str) -> float:
    """The seconds of a ``Retry-After``; a date, or what is no number, is none."""
    try:
        seconds = float(header)
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(seconds) else max(0.0, min(seconds, LONGEST_WAIT))
