"""Client-side limit on requests, as client-go's token bucket (`--kube-api-qps`, `-burst`)."""

from __future__ import annotations


class TokenBucket:
    """Lets `burst` requests pass at once and `qps` a second in the long run."""

    def __init__(self, qps: float, burst: int) -> None:
        """Args: `qps` and `burst` as client-go takes them: 0 for its defaults, less for no limit."""
        self._rate = qps or 5.0
        self._most = float(max(1, burst or 10))
        self._tokens = self._most
        self._at: float | None = None

    def reserve(self, now: float) -> float:
        """Takes a place in the queue; returns the seconds to wait for it."""
        if self._rate < 0:
            return 0.0
        if self._at is not None:
            self._tokens = min(self._most, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)
