"""Preferred allocation of whole GPUs, on links that were read once in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.hardware.model import Gpu, Links
from gpu_device_plugin.resources.model import Resource
from gpu_device_plugin.resources.topology import PairScores, TopologyAllocator
from gpu_device_plugin.telemetry import ChosenWithoutLinks, Listener, nobody

log = logging.getLogger(__name__)

PREPARE_SECONDS = 2.0
"""Longest time that is spent on tables for preferred allocations."""
LINKS_WAIT = 0.3
"""Seconds that an early request waits for the links before it is answered without them."""


class LinkedGpus:
    """Chooses GPUs by their links; until these are known, as if all were equal."""

    def __init__(self, gpus: Sequence[Gpu], tell: Listener = nobody) -> None:
        self.links: Links | None = None
        """The links between the GPUs; None as long as they are not known."""
        self._tell = tell
        self._positions = {gpu.uuid: n for n, gpu in enumerate(gpus)}
        self._uuids = [gpu.uuid for gpu in gpus]
        self._indices = [gpu.index for gpu in gpus]
        self._allocator = TopologyAllocator(self._score(Links()))
        self._ready = asyncio.Event()

    def set_links(self, links: Links) -> None:
        """From now on these links count."""
        for problem in links.problems:
            log.warning("links are not known: %s; GPUs there are chosen without them", problem)
        self.links = links
        self._allocator = TopologyAllocator(self._score(links))
        self._ready.set()

    async def prepare(self) -> None:
        """Makes the tables that later answers look up, in pieces of about a millisecond."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PREPARE_SECONDS
        for _ in self._allocator.preparation():
            if loop.time() > end:
                log.info("the tables for preferred allocations are not complete; searching instead")
                return
            await asyncio.sleep(0)

    def _score(self, links: Links) -> PairScores:
        at = {index: position for position, index in enumerate(self._indices)}
        return PairScores.from_links(
            len(at),
            {(at[a], at[b]): level for (a, b), level in links.ancestors.items()},
            {(at[a], at[b]): count for (a, b), count in links.nvlinks.items()},
        )

    async def prefer(
        self, resource: Resource, available: Sequence[str], required: Sequence[str], size: int
    ) -> list[str]:
        """The set of the best partition (see `TopologyAllocator`), in the order of the request."""
        positions = [self._position(resource, device_id) for device_id in available]
        must = [self._position(resource, device_id) for device_id in required]
        if not self._ready.is_set() and len(set(positions)) != size:
            try:
                async with asyncio.timeout(LINKS_WAIT):
                    await self._ready.wait()
            except TimeoutError:
                log.info("preferred allocation without links: they are still being read")
                self._tell(ChosenWithoutLinks(resource.name))
        return [self._uuids[n] for n in self._allocator.prefer(positions, must, size)]

    def _position(self, resource: Resource, device_id: str) -> int:
        # As in the original any GPU of the node is known here, whatever the resource holds; the
        # kubelet asks for none but those it was given.
        position = self._positions.get(device_id)
        if position is None:
            raise RequestError(f"invalid request for {resource.name}: unknown device {device_id!r}")
        return position
