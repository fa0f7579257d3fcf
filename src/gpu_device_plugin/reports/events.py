"""Tells happenings as events of the node."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from gpu_device_plugin.kube.answers import JsonObject
from gpu_device_plugin.kube.client import PatchKind, path
from gpu_device_plugin.kube.errors import ApiError, KubeError
from gpu_device_plugin.reports.book import TOO_OLD_SECONDS, Entry, EventBook
from gpu_device_plugin.reports.clock import Clock
from gpu_device_plugin.reports.event import COLLECTION, event_again, event_name, new_event
from gpu_device_plugin.reports.model import NodeHealth
from gpu_device_plugin.reports.notices import Notices
from gpu_device_plugin.reports.trouble import Trouble
from gpu_device_plugin.telemetry import Happening

log = logging.getLogger(__name__)

RULE = '{apiGroups: [""], resources: [events], verbs: [create, patch]}'


class Api(Protocol):
    """What is needed of the Kubernetes API; `kube.client.KubeClient` has it."""

    async def get(self, target: str) -> JsonObject:
        """Reads an object."""
        ...

    async def create(self, collection: str, item: JsonObject) -> JsonObject:
        """Creates an object."""
        ...

    async def patch(self, target: str, patch: object, kind: PatchKind) -> JsonObject:
        """Changes a part of an object."""
        ...

    async def close(self) -> None:
        """Closes connections."""
        ...


class EventReporter:
    """Keeps what has happened until Kubernetes knows of it, within limits.

    Args:
        node: name of the node.
        component: the program that reports.
        observe: tells how the GPUs are doing now.
        clock: the time.
    """

    name = "health events"

    def __init__(
        self, node: str, component: str, observe: Callable[[], NodeHealth], clock: Clock
    ) -> None:
        self._node = node
        self._component = component
        self._observe = observe
        self._clock = clock
        self._notices = Notices()
        self._book = EventBook()
        self._wake = asyncio.Event()
        self._trouble = Trouble("GPU health events", RULE)

    def tell(self, happening: Happening) -> None:
        """Takes what has happened; never waits and never grows without limit."""
        notice = self._notices.of(happening)
        if notice is not None:
            self._book.note(notice, self._clock.wall(), self._clock.now())
            self._wake.set()

    async def run(self, api: Api) -> None:
        """Tells everything, in its turn; never returns."""
        while True:
            now = self._clock.now()
            self._drop_old(now)
            entry = self._book.due(now)
            if entry is None:
                await self._clock.wait(self._wake, self._book.wait(now))
                continue
            pause = await self._report(api, entry)
            if pause:
                await self._clock.sleep(pause)

    async def finish(self, api: Api) -> None:
        """Tells what may be told before the program ends."""
        while not self._trouble and (entry := self._book.due(self._clock.now())) is not None:
            await self._report(api, entry)

    def _drop_old(self, now: float) -> None:
        dropped = self._book.drop_old(now)
        if dropped:
            log.warning(
                "%d GPU health events could not be reported within %g s and are dropped",
                *(dropped, TOO_OLD_SECONDS),
            )

    async def _report(self, api: Api, entry: Entry) -> float:
        """Tells an entry; returns the seconds to wait before the next attempt at anything."""
        entry.name = entry.name or self._new_name()
        shown, left_out = replace(entry), self._book.left_out
        message = shown.notice.text(self._observe())
        if left_out:
            message += f" ({left_out} other events were left out: too many at once)"
        try:
            shown.name = await self._write(api, shown, message)
        except ApiError as error:
            if error.is_denied or error.is_transient:
                return self._trouble.met(error)
            log.warning("a GPU health event is dropped: %s", error)
            self._book.drop(entry)
            return 0.0
        except KubeError as error:
            return self._trouble.met(error)
        self._trouble.over()
        self._book.told(shown, self._clock.now(), left_out)
        return 0.0

    async def _write(self, api: Api, entry: Entry, message: str) -> str:
        """Creates an object for an entry, or raises the count of the one that it has."""
        name = entry.name
        if entry.told:
            try:
                await self._raise_count(api, name, entry, message)
            except ApiError as error:
                if not error.is_not_found:
                    raise
                # API servers forget events after an hour.
                name = self._new_name()
            else:
                return name
        try:
            await api.create(
                COLLECTION, new_event(name, self._node, self._component, entry, message)
            )
        except ApiError as error:
            if not error.is_conflict:
                raise
            # It was created by an attempt whose answer has been lost.
            await self._raise_count(api, name, entry, message)
        return name

    async def _raise_count(self, api: Api, name: str, entry: Entry, message: str) -> None:
        patch = event_again(entry, message)
        await api.patch(f"{COLLECTION}{path(name)}", patch, PatchKind.STRATEGIC)

    def _new_name(self) -> str:
        return event_name(self._node, time.time_ns())
