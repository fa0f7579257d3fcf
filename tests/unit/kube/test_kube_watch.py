from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.aio import run, within
from support.apiserver import ApiServer

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.kube.access import Access
from gpu_device_plugin.kube.answers import JsonObject
from gpu_device_plugin.kube.client import KubeClient
from gpu_device_plugin.kube.errors import ApiError, ApiUnreachable, KubeError
from gpu_device_plugin.kube.watch import ObjectState, ProblemLog, watch_object

NODES = "/api/v1/nodes"
NODE = "/api/v1/nodes/node1"
Changes = AsyncGenerator[JsonObject | None, None]


ODD_LISTS: tuple[object, ...] = (5, True, "", {})


class Pauses:
    """Notes the pauses that are asked for, and makes none."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0.001)


def labelled(value: str) -> JsonObject:
    return {"metadata": {"labels": {"config": value}}}


def value_of(item: JsonObject | None) -> str | None:
    return None if item is None else item["metadata"].get("labels", {}).get("config", "")


@asynccontextmanager
async def watching(
    api: ApiServer, pauses: Pauses | None = None, **settings: Any
) -> AsyncIterator[Changes]:
    async with KubeClient(Access(api.url, "tests"), qps=-1) as client:
        changes = watch_object(client, NODES, "node1", pause=pauses or Pauses(), **settings)
        async with aclosing(changes):
            yield changes


async def told(changes: Changes) -> str | None:
    return value_of(await within(10, anext(changes)))


def test_a_token_that_has_not_been_written_yet_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.touch()

    async def work(api: ApiServer) -> None:
        api.store.put(NODE, labelled("a"))
        access = Access(api.url, "tests", token_file=str(token))
        asked = asyncio.Event()

        async def pause(_: float) -> None:
            asked.set()
            await asyncio.sleep(0)

        async with KubeClient(access, qps=-1) as client:
            changes = watch_object(client, NODES, "node1", pause=pause)
            async with aclosing(changes):
                first = asyncio.ensure_future(anext(changes))
                await within(10, asked.wait())
                assert not first.done()
                token.write_text("secret")
                assert value_of(await within(10, first)) == "a"

    with ApiServer(tokens={"secret"}) as api:
        run(work(api))
    assert caplog.text.count(f"the token in {token} cannot be used: it is empty; trying again") == 1


def test_the_object_is_told_at_first_and_after_every_change(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))
    api.store.put("/api/v1/nodes/node2", labelled("other"))

    async def work() -> None:
        async with watching(api) as changes:
            assert await told(changes) == "a"
            api.store.put(NODE, labelled("b"))
            assert await told(changes) == "b"
            api.store.put("/api/v1/nodes/node2", labelled("another"))
            api.store.delete(NODE)
            assert await told(changes) is None
            api.store.put(NODE, labelled("c"))
            assert await told(changes) == "c"

    run(work())
    assert api.count("GET", NODES) == 1
    watch = next(s for s in api.seen if s.is_watch)
    assert watch.query["fieldSelector"] == "metadata.name=node1"
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watch.query["timeoutSeconds"]) <= 600


def test_an_object_that_is_not_there_is_told_and_awaited(api: ApiServer) -> None:
    async def work() -> None:
        async with watching(api) as changes:
            assert await told(changes) is None
            api.store.put(NODE, labelled("late"))
            assert await told(changes) == "late"

    run(work())


def test_a_watch_that_ends_is_continued_without_a_list(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))

    async def work() -> None:
        async with watching(api) as changes:
            assert await told(changes) == "a"
            api.store.put(NODE, labelled("b"))
            assert await told(changes) == "b"
            api.cut_watches()
            api.store.put(NODE, labelled("c"))
            assert await told(changes) == "c"

    run(work())
    assert api.count("GET", NODES) == 1


def test_a_version_that_is_gone_begins_with_a_list(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))
    pauses = Pauses()

    async def work() -> None:
        async with watching(api, pauses) as changes:
            assert await told(changes) == "a"
            api.cut_watches()
            api.stop()
            api.store.put(NODE, labelled("b"))
            api.store.compact()
            api.start()
            assert await told(changes) == "b"

    run(work())
    assert api.count("GET", NODES) >= 2


@pytest.mark.parametrize("is_event", [True, False])
def test_versions_that_always_are_gone_are_not_asked_for_in_a_circle(
    api: ApiServer, is_event: bool
) -> None:
    api.store.put(NODE, labelled("a"))
    status = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
    event = b'{"type":"ERROR","object":' + status + b"}\n"
    head, body = (b"200 OK", event) if is_event else (b"410 Gone", status)
    raw = b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (head, len(body), body)
    api.fail("WATCH", NODES, raw=raw, times=6)
    pauses = Pauses()

    async def work() -> None:
        async with watching(api, pauses, backoff=Backoff(chance=lambda: 0.0)) as changes:
            assert await told(changes) == "a"
            api.store.put(NODE, labelled("b"))
            assert await told(changes) == "b"

            async def rest() -> None:
                await anext(changes)

            following = asyncio.create_task(rest())
            await asyncio.to_thread(api.wait, lambda: api.count("GET", NODES, watch=True) >= 7)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run(work())
    # At once after the first failure, then with pauses, one list for every two attempts.
    assert len(pauses.seconds) >= 3
    assert pauses.seconds[:3] == pytest.approx([0.8, 1.6, 3.2])


def test_failures_are_reported_and_tried_again_with_longer_pauses(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))
    api.fail("GET", NODES, status=500, times=2)
    api.fail("GET", NODES, raw=b"", times=2)  # a request on a used connection is sent again
    api.fail("GET", NODES, status=403)
    pauses = Pauses()
    reports: list[KubeError | None] = []

    async def work() -> None:
        backoff = Backoff(chance=lambda: 0.0)
        async with watching(api, pauses, report=reports.append, backoff=backoff) as changes:
            assert await told(changes) == "a"

    run(work())
    assert pauses.seconds == pytest.approx([0.8, 1.6, 3.2, 6.4])
    assert [isinstance(r, ApiError) and r.status for r in reports] == [500, 500, False, 403, False]
    assert reports[-1] is None


def test_an_api_that_is_down_for_long_loses_nothing(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))
    pauses = Pauses()

    async def work() -> None:
        async with watching(api, pauses) as changes:
            assert await told(changes) == "a"
            api.stop()
            following = asyncio.create_task(told(changes))
            async with asyncio.timeout(10):
                while len(pauses.seconds) < 9:  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(0.002)
            api.store.put(NODE, labelled("b"))
            api.start()
            assert await following == "b"

    run(work())
    assert 30 <= pauses.seconds[-1] <= 37.5


def test_a_server_that_asks_to_wait_is_given_time(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))
    api.fail("GET", NODES, status=429, headers={"Retry-After": "9"})
    pauses = Pauses()

    async def work() -> None:
        async with watching(api, pauses) as changes:
            assert await told(changes) == "a"

    run(work())
    assert 9 <= pauses.seconds[0] <= 12


def test_bookmarks_move_the_version_and_tell_nothing(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))

    async def work() -> None:
        async with watching(api) as changes:
            assert await told(changes) == "a"
            following = asyncio.create_task(told(changes))
            await asyncio.to_thread(api.wait, lambda: api.count("GET", NODES, watch=True) == 1)
            for number in range(3):
                api.store.put("/api/v1/nodes/node2", labelled(str(number)))
            await asyncio.to_thread(api.wait, lambda: api.marked >= api.store.version)
            api.cut_watches()
            await asyncio.to_thread(api.wait, lambda: api.count("GET", NODES, watch=True) == 2)
            api.store.put(NODE, labelled("b"))
            assert await following == "b"

    run(work())
    first, second = (s for s in api.seen if s.is_watch)
    assert int(second.query["resourceVersion"]) > int(first.query["resourceVersion"])
    assert api.count("GET", NODES) == 1


def test_a_watcher_that_loses_interest_leaves_nothing_behind(api: ApiServer) -> None:
    api.store.put(NODE, labelled("a"))

    async def work() -> None:
        async with watching(api) as changes:
            assert await told(changes) == "a"
            following = asyncio.create_task(told(changes))
            await asyncio.to_thread(api.wait, lambda: api.count("GET", NODES, watch=True) == 1)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run(work())


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "ADDED"},
        {"type": "ADDED", "object": None},
        {"type": "MODIFIED", "object": {"metadata": None}},
        {"type": "MODIFIED", "object": {"metadata": {"name": "other", "resourceVersion": "9"}}},
        {"type": "BOOKMARK", "object": {}},
        {"type": "WHATEVER", "object": {"metadata": {}}},
        {"type": "WHATEVER", "object": {"metadata": {"name": "node1", "resourceVersion": "9"}}},
        {"type": ["ADDED"], "object": {"metadata": {"name": "node1"}}},
        {"type": "MODIFIED", "object": {"metadata": "node1"}},
        {"type": "MODIFIED", "object": {"metadata": ["node1"]}},
        {"type": "MODIFIED", "object": {"metadata": {"name": {"is": "node1"}}}},
        {"type": "BOOKMARK", "object": {"metadata": 9}},
    ],
)
def test_events_that_say_nothing_of_the_object_change_nothing(event: JsonObject) -> None:
    state = ObjectState("node1")
    item = {"metadata": {"name": "node1", "resourceVersion": "5"}}
    assert state.take_list({"metadata": {"resourceVersion": "7"}, "items": [item]})

    assert not state.take_event(event)
    assert state.current == item


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": []},
        {"metadata": {"resourceVersion": "8"}},
        {"metadata": {"resourceVersion": 8}, "items": []},
        {"metadata": ["8"], "items": []},
        {"metadata": "8", "items": []},
        *({"metadata": {"resourceVersion": "8"}, "items": odd} for odd in ODD_LISTS),
    ],
)
def test_an_answer_that_is_no_list_does_not_say_that_the_object_is_gone(answer: JsonObject) -> None:
    state = ObjectState("node1")
    item = {"metadata": {"name": "node1", "resourceVersion": "5"}}
    assert state.take_list({"metadata": {"resourceVersion": "7"}, "items": [item, "odd", None]})

    with pytest.raises(ApiUnreachable, match="is this a Kubernetes API"):
        state.take_list(answer)
    assert state.current == item


def test_a_list_of_nothing_may_be_null() -> None:
    state = ObjectState("node1")

    assert state.take_list({"metadata": {"resourceVersion": "7"}, "items": None})
    assert state.current is None


@pytest.mark.parametrize("code", ["abc", [410], {}, None, 1e300, float("inf"), -1, 10**30])
def test_the_end_of_a_watch_may_have_a_code_that_is_none(code: object) -> None:
    odd = {"code": code, "reason": ["Odd"], "message": {"a": 1}}

    with pytest.raises(ApiError) as caught:
        ObjectState("node1").take_event({"type": "ERROR", "object": odd})
    assert (caught.value.status, caught.value.api_message) == (500, "")


def test_a_problem_is_logged_when_it_begins_changes_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    problems = ProblemLog("watching")
    for problem in (None, KubeError("down"), KubeError("down"), KubeError("shut"), None, None):
        problems(problem)

    assert [r.getMessage() for r in caplog.records] == [
        "watching: down; trying again",
        "watching: shut; trying again",
        "watching: the Kubernetes API answers again",
    ]
