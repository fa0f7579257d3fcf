"""All that a demonstration shows: the node, the log of each side, and where the story is."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.simulation.page_address import page_url
from gpu_device_plugin.simulation.views import EventKind, KubeletEvent, NodeView

LOG_LINES = 500
"""Lines of the log that are kept."""

_UUID = re.compile(r"\b(GPU-[0-9a-f]{8})-[0-9a-f-]{27}")
_UNHEALTHY = re.compile(r"unhealthy resource=\S+ device=(\S+) reason='?([^']+)'?")


class Side(StrEnum):
    """Who a line of the log is from."""

    NODE = "node"
    PLUGIN = "plugin"
    KUBELET = "kubelet"


class Tone(StrEnum):
    """How a text is meant."""

    PLAIN = "plain"
    STRONG = "strong"
    QUIET = "quiet"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


TONE_OF_LEVEL = {"warning": Tone.WARNING, "error": Tone.BAD, "critical": Tone.BAD}
TONE_OF_EVENT = {
    EventKind.ADMITTED: Tone.GOOD,
    EventKind.REJECTED: Tone.WARNING,
    EventKind.REFUSED: Tone.BAD,
    EventKind.DISCONNECTED: Tone.WARNING,
    EventKind.STOPPED: Tone.WARNING,
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log."""

    seconds: float
    """Since the demonstration began."""
    side: Side
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the story is."""

    number: int = 0
    total: int = 0
    title: str = ""
    text: str = ""
    """What there is to see, in a sentence."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is drawn, at one moment."""

    seconds: float
    machine: str
    inventory: Inventory
    node: NodeView
    causes: dict[str, str]
    """Why devices are unhealthy, as the plugin tells it; by id without replica number."""
    scene: Scene
    log: tuple[LogLine, ...]
    page: str = ""
    """URL of the plugin's page; empty if there is none."""


class Stage:
    """Collects what happens; whoever draws waits for `changed`.

    Args:
        machine: what the simulated machine calls itself.
        inventory: the GPUs that it has at first.
        hidden: what is left out of messages, as it says nothing to anybody (paths).
        on_line: told of every line of the log.
    """

    def __init__(
        self,
        machine: str,
        inventory: Inventory,
        hidden: Sequence[str] = (),
        on_line: Callable[[LogLine], None] | None = None,
    ) -> None:
        self.changed = asyncio.Event()
        self.scene = Scene()
        self._machine = machine
        self._inventory = inventory
        self._hidden = hidden
        self._on_line = on_line
        self._start = time.monotonic()
        self._causes: dict[str, str] = {}
        self._log: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._page = ""
        self._logged = asyncio.Event()

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._start

    def picture(self, node: NodeView) -> Picture:
        """What is to be seen now."""
        return Picture(
            seconds=self.seconds,
            machine=self._machine,
            inventory=self._inventory,
            node=node,
            causes=dict(self._causes),
            scene=self.scene,
            log=tuple(self._log),
            page=self._page,
        )

    def enter(self, scene: Scene) -> None:
        """The story goes on to the next scene."""
        self.scene = scene
        self.changed.set()

    def happen(self, text: str, tone: Tone = Tone.WARNING) -> None:
        """Something is done to the node."""
        self._add(Side.NODE, text, tone)

    def hear_plugin(self, level: str, text: str) -> None:
        """The plugin has logged something."""
        url = page_url(text)
        if url:
            self._page = url
            self._add(Side.NODE, f"the page: {url}, the metrics: {url}metrics", Tone.STRONG)
            return
        match = _UNHEALTHY.match(text)
        if match:
            self._causes[match[1]] = match[2]
        self._add(Side.PLUGIN, text, TONE_OF_LEVEL.get(level, Tone.PLAIN))

    def hear_kubelet(self, event: KubeletEvent) -> None:
        """The kubelet has seen or done something."""
        about = f"pod {event.pod}: " if event.pod else f"{event.resource}: " * bool(event.resource)
        tone = TONE_OF_EVENT.get(event.kind, Tone.PLAIN)
        if event.kind is EventKind.LIST and "unhealthy" in event.message:
            tone = Tone.WARNING
        self._add(Side.KUBELET, about + event.message, tone)

    def _add(self, side: Side, text: str, tone: Tone) -> None:
        first = text.partition("\n")[0].rstrip(":")
        for path in self._hidden:
            first = first.replace(path, "")
        line = LogLine(self.seconds, side, _UUID.sub(r"\1", first), tone)
        self._log.append(line)
        self.changed.set()
        self._logged.set()
        self._logged = asyncio.Event()
        if self._on_line is not None:
            self._on_line(line)

    async def until_plugin_says(self, part: str, since: float, limit: float) -> bool:
        """Waits for a line of the plugin.

        Args:
            part: what is in it.
            since: not before that many seconds after the beginning.
            limit: seconds to wait.

        Returns:
            Whether it came.
        """
        try:
            async with asyncio.timeout(limit):
                while not any(
                    line.side is Side.PLUGIN and line.seconds >= since and part in line.text
                    for line in self._log
                ):
                    await self._logged.wait()
        except TimeoutError:
            return False
        return True
