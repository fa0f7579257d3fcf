"""One label of one node, followed through the Kubernetes API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from gpu_device_plugin.kube.shapes import text

if TYPE_CHECKING:
    from gpu_device_plugin.kube.client import KubeClient

NODES = "/api/v1/nodes"


class NodeLabel:
    """What is known of the label: the newest value counts, those between may be missed."""

    def __init__(self, label: str, changed: Callable[[], None]) -> None:
        """Knows nothing yet.

        Args:
            label: name of the label.
            changed: called when anything becomes known or changes.
        """
        self.value: str | None = None
        """Empty without label or node; None as long as the API has not answered."""
        self.seen = asyncio.Event()
        """Set once the node has been seen."""
        self._label = label
        self._changed = changed

    async def follow(self, nodes: AsyncGenerator[Mapping[str, Any] | None, None]) -> None:
        """Takes one state of the node after the other; None while there is no such node."""
        async with aclosing(nodes):
            async for node in nodes:
                self._take(node)

    def _take(self, node: Mapping[str, Any] | None) -> None:
        before = self.value, self.seen.is_set()
        self.value = "" if node is None else text(node, "metadata", "labels", self._label)
        if node is not None:
            self.seen.set()
        if before != (self.value, self.seen.is_set()):
            self._changed()


def follow_node(client: KubeClient, name: str) -> AsyncGenerator[Mapping[str, Any] | None, None]:
    """The states of a node, from now on; never ends by itself."""
    from gpu_device_plugin.kube.watch import watch_object  # noqa: PLC0415 - only with an API

    return watch_object(client, NODES, name)
