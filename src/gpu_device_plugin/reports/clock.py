"""Time, as reporters see it; tests have another one."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The time of this machine."""

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def now(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Waits for an event or so many seconds; whether the event came, which is cleared."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True

    async def sleep(self, seconds: float) -> None:
        """Waits so many seconds."""
        await asyncio.sleep(seconds)
