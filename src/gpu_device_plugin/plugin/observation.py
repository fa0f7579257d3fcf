"""What is served at one moment and how that goes, for whoever asks: probes, metrics, pages.

Nothing here is kept up to date; a new observation is made for each question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_device_plugin.hardware.model import Links
from gpu_device_plugin.plugin.ailment import Ailment
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.served import ServedResource, State
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.resources.model import Resource


@dataclass(frozen=True, slots=True)
class ObservedResource:
    """One resource."""

    resource: Resource
    state: State
    open_streams: int
    ailments: Mapping[str, Ailment]
    """What is known against devices, by id without replica number."""

    @classmethod
    def of(cls, served: ServedResource) -> ObservedResource:
        """How a resource is doing."""
        board = served.service.board
        return cls(board.resource, served.state, board.open_streams, board.ailments)


@dataclass(frozen=True, slots=True)
class Reload:
    """The last time that configuration and hardware were read anew."""

    time: float
    """Seconds since 1970."""
    error: str = ""
    """Why the former configuration stays in force; empty if it does not."""


@dataclass(frozen=True, slots=True)
class Observation:
    """All that the plugin serves."""

    node: Node | None
    """None until the node has been read for the first time."""
    resources: tuple[ObservedResource, ...] = ()
    links: Links | None = None
    """None as long as they are being read."""
    watch: WatchState = WatchState.OFF
    offer_problem: str = ""
    """Why nothing is offered since the hardware has changed; empty if that is not so."""
    kubelet_socket: str = ""
    """Empty if nothing is to be registered."""
    last_reload: Reload | None = None
