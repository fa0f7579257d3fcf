"""Keeps the condition of the node as its GPUs are.

The state is looked at, whatever has been told of it: a happening only makes the look come sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpu_device_plugin.kube.client import PatchKind, path
from gpu_device_plugin.kube.errors import ApiError, KubeError
from gpu_device_plugin.reports.book import Allowance, Rate
from gpu_device_plugin.reports.clock import Clock
from gpu_device_plugin.reports.condition import (
    STARTING,
    STOPPED,
    ConditionKeeper,
    State,
    Verdict,
    judge,
)
from gpu_device_plugin.reports.events import Api
from gpu_device_plugin.reports.model import NodeHealth
from gpu_device_plugin.reports.trouble import Trouble
from gpu_device_plugin.telemetry import Happening, HealthChanged, Reloaded

RULE = '{apiGroups: [""], resources: [nodes/status], verbs: [get, patch]}'
RATE = Rate(burst=5, seconds=10)
LOOK_SECONDS = 15.0
"""Longest time between two looks."""
GATHER_SECONDS = 0.5
"""How long a change waits for others that belong to it."""
UNSETTLED_LOOK_SECONDS = 1.0
"""Time between looks at a state that is about to be known."""
SETTLE_SECONDS = 60.0
"""How long a state that is about to be known is waited for."""
UNSURE_SECONDS = 5.0
"""How long nothing must be known before that is said: at a reload it is so for a moment."""


class ConditionReporter:
    """Writes the condition when it changes, and now and then.

    Args:
        node: name of the node.
        observe: tells how the GPUs are doing now.
        clock: the time.
    """

    name = "node condition"

    def __init__(self, node: str, observe: Callable[[], NodeHealth], clock: Clock) -> None:
        self._target = path("api", "v1", "nodes", node, "status")
        self._observe = observe
        self._clock = clock
        self._keeper = ConditionKeeper()
        self._allowance = Allowance(RATE)
        self._wake = asyncio.Event()
        self._trouble = Trouble("changes of the node's condition", RULE)
        self._has_learned = False
        self._shown: State | None = None
        """What the node may say by now; an attempt that is cut short may have been carried out."""
        self._unsure_since: float | None = None

    def tell(self, happening: Happening) -> None:
        """Looks soon, if something has happened to GPUs."""
        if isinstance(happening, HealthChanged | Reloaded):
            self._wake.set()

    async def run(self, api: Api) -> None:
        """Keeps the condition; never returns."""
        while True:
            now = self._clock.now()
            verdict = self._settled(now)
            if verdict is None:
                await self._clock.wait(self._wake, UNSETTLED_LOOK_SECONDS)
            elif (wait := self._keeper.wait(verdict, now)) > 0:
                if await self._clock.wait(self._wake, min(wait, LOOK_SECONDS)):
                    await self._clock.sleep(GATHER_SECONDS)
            elif (pause := self._allowance.wait(now)) or (pause := await self._try(api, verdict)):
                await self._clock.sleep(pause)

    async def finish(self, api: Api) -> None:
        """Nobody watches any more. A GPU that was broken is not mended by that, so false stays."""
        if self._shown is State.TRUE and not self._trouble:
            await self._try(api, STOPPED)

    def _settled(self, now: float) -> Verdict | None:
        """What to write; None if it is better to wait."""
        verdict = judge(self._observe())
        if verdict is not None and verdict.state is not State.UNKNOWN:
            self._unsure_since = None
            return verdict
        if self._unsure_since is None:
            self._unsure_since = now
        unsure = now - self._unsure_since
        if verdict is None:
            return STARTING if unsure >= SETTLE_SECONDS else None
        return verdict if unsure >= UNSURE_SECONDS else None

    async def _try(self, api: Api, verdict: Verdict) -> float:
        """Writes the condition; returns the seconds to wait before the next attempt."""
        try:
            await self._learn(api)
            body = self._keeper.body(verdict, self._clock.wall())
            self._shown = verdict.state
            await api.patch(self._target, body, PatchKind.STRATEGIC)
        except KubeError as error:
            return self._trouble.met(error)
        self._trouble.over()
        now = self._clock.now()
        self._allowance.take(now)
        self._keeper.written(verdict, body, now)
        return 0.0

    async def _learn(self, api: Api) -> None:
        """Reads, once, what the condition said before this program began."""
        if self._has_learned:
            return
        try:
            self._keeper.learn(await api.get(self._target))
        except ApiError as error:
            # Who may write but not read begins a new transition; everything else is met in writing.
            if not error.is_denied:
                raise
        self._has_learned = True
