"""A hardware backend that tells what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, HealthKind, Inventory, Links


class ToldBackend:
    """Reads a given inventory, or fails to; its events come from a queue."""

    name = "told"

    def __init__(self, inventory: Inventory | InitError, links: Links | None = None) -> None:
        self.inventory = inventory
        self.links = links or Links()
        self.queue: asyncio.Queue[HealthEvent | Exception] = asyncio.Queue()
        self.closed = False
        self.problems: dict[str, str] = {}

    def read(self) -> Inventory:
        if isinstance(self.inventory, InitError):
            raise self.inventory
        return self.inventory

    def read_links(self, inventory: Inventory, stopped: Callable[[], bool]) -> Links:  # noqa: ARG002
        return self.links

    async def health_events(self, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:  # noqa: ARG002
        try:
            while True:
                event = await self.queue.get()
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed = True

    def problem_of(self, gpu: Gpu) -> str:
        return self.problems.get(gpu.uuid, "")

    def is_loadable(self) -> bool:
        return not isinstance(self.inventory, InitError)


async def news(backend: Backend, inventory: Inventory) -> AsyncGenerator[HealthEvent, None]:
    """All events of a backend but signs of life."""
    async with aclosing(backend.health_events(inventory)) as events:
        async for event in events:
            if event.kind is not HealthKind.MONITOR_ALIVE:
                yield event
