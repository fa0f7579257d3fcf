"""Asyncio in tests: a limit on every wait, and nothing left over at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT = 10.0
"""Seconds after which a test has hung."""
ENDING = 1.0
"""Seconds in which tasks that are about to end have to."""


def run(work: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
    """Runs a coroutine in a loop of its own; fails if tasks are left at its end."""

    async def limited() -> T:
        async with asyncio.timeout(limit):
            result = await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:  # such as one that was cancelled: how many turns it takes to end is its own affair
            _, left = await asyncio.wait(left, timeout=ENDING)
        assert not left, left
        return result

    return asyncio.run(limited())


async def until(condition: Callable[[], bool], limit: float = LIMIT) -> None:
    """Waits for what nothing announces, such as a file; turns the loop meanwhile."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.002)


async def within(limit: float, work: Awaitable[T]) -> T:
    """The result, or a failure after so many seconds."""
    async with asyncio.timeout(limit):
        return await work
