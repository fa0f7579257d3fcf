"""What comes back from an API server, made sense of."""

from __future__ import annotations

import json
from typing import Any

from gpu_device_plugin.kube.connection import Head, Request
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable

JsonObject = dict[str, Any]

LONGEST_WAIT = 120.0
"""Seconds of a ``Retry-After`` that are honoured."""


def refusal(request: Request, head: Head, body: bytes) -> ApiError:
    """The error that an answer stands for; its body mostly is a Status object."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        status = {"message": body[:500].decode("utf-8", "replace")}
    try:
        wait = min(float(head.headers.get("retry-after", "0")), LONGEST_WAIT)
    except ValueError:
        wait = 0.0
    return ApiError(
        str(request),
        head.status,
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
        retry_after=max(wait, 0.0),
    )


def decoded(request: Request, body: bytes) -> JsonObject:
    """The object that a body is."""
    try:
        item = json.loads(body)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise ApiUnreachable(f"{request}: the answer is no JSON object; is this a Kubernetes API?")
    return item
