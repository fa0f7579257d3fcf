"""Times as the Kubernetes API writes them."""

from __future__ import annotations

import time


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as ``2026-01-31T12:00:00Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
