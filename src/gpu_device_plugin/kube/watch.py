"""Follows one object of the Kubernetes API for as long as somebody wants to know of it.

List, then watch from there on, as client-go's reflectors do: a watch that ends is continued from
the last resource version seen, one whose resource version is gone begins with a list again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.kube.answers import JsonObject
from gpu_device_plugin.kube.client import KubeClient
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable, KubeError
from gpu_device_plugin.kube.shapes import mapping, objects, text
from gpu_device_plugin.news import News

log = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""After which the server is asked to end a watch, up to twice that by chance, so that all
watches of a fleet do not begin anew in the same moment."""
GRACE_SECONDS = 30.0
"""How much longer a watch may last before it is given up."""
HEALTHY_SECONDS = 5.0
"""A watch that the server ends sooner than this counts as a failure."""

_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_STATUSES = range(400, 600)

Report = Callable[[KubeError | None], None]
Pause = Callable[[float], Awaitable[object]]


class ProblemLog:
    """Logs when a problem begins, changes and ends, not every time it is met."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._news = News()

    def __call__(self, problem: KubeError | None) -> None:
        """Takes what the last attempt came to."""
        if problem is None:
            if self._news.end():
                log.info("%s: the Kubernetes API answers again", self._what)
        elif self._news.is_new(str(problem)):
            log.warning("%s: %s; trying again", self._what, problem)


@dataclass(slots=True)
class ObjectState:
    """What is known of an object; takes what the API tells, one thing after the other."""

    name: str
    version: str = ""
    """The resource version to continue from; empty if a list is needed."""
    known: bool = False
    current: JsonObject | None = field(default=None, repr=False)
    is_renewed: bool = False
    """Whether it began with a list again, and no event has come since."""

    def take_list(self, answer: JsonObject) -> bool:
        """Takes the answer to a list; returns whether the object is another than before.

        Raises:
            ApiUnreachable: it is no list. That the object does not exist must not follow from it.
        """
        version, items = _version_of(answer), answer.get("items", "")
        if not version or not isinstance(items, list | None):
            raise ApiUnreachable(
                f"the answer to a list with {self.name} is none; is this a Kubernetes API?"
            )
        self.version = version
        return self._set(next((o for o in objects(answer, "items") if _name(o) == self.name), None))

    def take_event(self, event: JsonObject) -> bool:
        """Takes an event of a watch; returns whether the object is another than before.

        Raises:
            ApiError: the event is the end of the watch.
        """
        kind, item = event.get("type"), mapping(event, "object")
        if kind == "ERROR":
            code = item.get("code")
            raise ApiError(
                f"the watch of {self.name}",
                code if isinstance(code, int) and code in _STATUSES else 500,
                text(item, "reason"),
                text(item, "message"),
            )
        self.version = _version_of(item) or self.version
        self.is_renewed = False
        if kind not in _CHANGES or _name(item) != self.name:
            return False
        return self._set(None if kind == "DELETED" else item)

    def begin_again(self, error: KubeError) -> bool:
        """Decides where to continue after a failure; returns whether at once."""
        is_gone = isinstance(error, ApiError) and error.is_gone
        at_once = is_gone and bool(self.version) and not self.is_renewed
        self.is_renewed = at_once
        if is_gone or (isinstance(error, ApiError) and not error.is_transient):
            self.version = ""
        return at_once

    def _set(self, found: JsonObject | None) -> bool:
        is_new = not self.known or _version(found) != _version(self.current)
        self.known, self.current = True, found
        return is_new


async def watch_object(
    client: KubeClient,
    collection: str,
    name: str,
    *,
    report: Report | None = None,
    pause: Pause = asyncio.sleep,
    backoff: Backoff | None = None,
) -> AsyncGenerator[JsonObject | None, None]:
    """The object as it is now, then as it is after each change; None while it does not exist.

    It never ends by itself: what goes wrong is reported and tried again, with pauses that
    double. Nothing comes before the API has answered for the first time. To be used with
    `contextlib.aclosing`.

    Args:
        client: how to reach the API.
        collection: path of the collection, such as ``/api/v1/nodes``.
        name: of the object.
        report: told of every failure, and of None after every success; by default they are logged.
        pause: waits for so many seconds.
        backoff: the pauses between failures.
    """
    report = report or ProblemLog(f"watching {collection}/{name}")
    backoff = backoff or Backoff()
    state = ObjectState(name)
    while True:
        try:
            async with aclosing(_follow(client, collection, state, backoff)) as changes:
                async for changed in changes:
                    report(None)
                    if changed:
                        yield state.current
        except KubeError as error:
            if state.begin_again(error):
                continue
            report(error)
            await pause(backoff.next(error.retry_after if isinstance(error, ApiError) else 0.0))
        else:
            await pause(backoff.next())


async def _follow(
    client: KubeClient, collection: str, state: ObjectState, backoff: Backoff
) -> AsyncGenerator[bool, None]:
    """One watch, and a list before it if need be: whether each answer is a change."""
    if not state.version:
        yield state.take_list(await client.get(collection, _selected(state.name)))
    now = asyncio.get_running_loop().time
    began = now()
    async with aclosing(client.stream(collection, *_watch_query(state))) as events:
        async for event in events:
            changed = state.take_event(event)
            backoff.reset()
            yield changed
    if now() - began >= HEALTHY_SECONDS:
        backoff.reset()


def _selected(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}


def _watch_query(state: ObjectState) -> tuple[dict[str, str], float]:
    seconds = WATCH_SECONDS * (1 + random.random())  # noqa: S311 - no secret
    query = {
        **_selected(state.name),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": state.version,
        "timeoutSeconds": f"{seconds:.0f}",
    }
    return query, seconds + GRACE_SECONDS


def _name(item: object) -> str:
    return text(item, "metadata", "name")


def _version_of(item: object) -> str:
    return text(item, "metadata", "resourceVersion")


def _version(item: JsonObject | None) -> object:
    return None if item is None else (text(item, "metadata", "uid"), _version_of(item))
