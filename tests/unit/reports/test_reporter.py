"""The reporters, with a clock that the tests turn, and the rules of an API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from support.aio import run
from support.reports import (
    EVENTS,
    NODE,
    StoreApi,
    TurnedClock,
    a_gpu,
    healthy,
    refused,
    unreachable,
    xid,
)

from gpu_device_plugin.kube.errors import AccessError
from gpu_device_plugin.reports.clock import Clock
from gpu_device_plugin.reports.events import Api
from gpu_device_plugin.reports.model import NodeHealth, Report, Watching
from gpu_device_plugin.reports.reporter import HealthReporter
from gpu_device_plugin.telemetry import Outcome, Registered, Reloaded

BROKEN = replace(healthy(0), gpus=(a_gpu(0, "XID 79"),))


@dataclass
class Stage:
    reporter: HealthReporter
    api: StoreApi
    clock: TurnedClock
    node: NodeHealth = field(default_factory=lambda: healthy(0))


@asynccontextmanager
async def reporting(
    *reports: Report,
    api: StoreApi | None = None,
    connect: Callable[[], Api] | None = None,
    node: NodeHealth | None = None,
) -> AsyncIterator[Stage]:
    api, clock = api or StoreApi(), TurnedClock()
    given = api
    reporter = HealthReporter(
        connect or (lambda: given),
        node="n1",
        component="nvidia-device-plugin",
        reports=reports or list(Report),
        clock=clock,
    )
    stage = Stage(reporter, api, clock, node or healthy(0))
    async with reporter.running(lambda: stage.node):
        await clock.turn()
        yield stage


def lines(caplog: pytest.LogCaptureFixture, least: int = logging.WARNING) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= least]


def test_an_event_is_one_that_kubectl_finds_with_its_node():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            stage.node = BROKEN
            stage.reporter.tell(xid())
            await stage.clock.turn()
            (event,) = stage.api.events()
        assert event["involvedObject"] == {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "n1",
            "uid": "n1",
        }
        assert event["source"] == {"component": "nvidia-device-plugin", "host": "n1"}
        assert (event["reason"], event["type"], event["count"]) == ("GPUXid", "Warning", 1)
        assert event["firstTimestamp"] == event["lastTimestamp"] == "2023-11-14T22:30:00Z"
        assert event["message"].startswith("GPU 0 (GPU-0, PCI ")
        assert stage.api.is_closed

    run(work())


def test_the_same_again_raises_the_count_of_the_same_object():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            for _ in range(3):
                stage.reporter.tell(xid())
                await stage.clock.turn(1)
            (event,) = stage.api.events()
            assert event["count"] == 3
            assert event["lastTimestamp"] == "2023-11-14T22:30:02Z"
            assert [method for method, _ in stage.api.requests] == ["POST", "PATCH", "PATCH"]

    run(work())


def test_a_storm_is_a_handful_of_requests_and_every_event_counts():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            for n in range(10_000):
                stage.reporter.tell(xid(n % 8))
            await stage.clock.turn(200)
            assert sum(event["count"] for event in stage.api.events()) == 10_000
            assert len(stage.api.events()) == 8
            assert len(stage.api.requests) == 8

    run(work())


def test_a_storm_of_different_events_is_cut_and_says_so():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            for n in range(1000):
                stage.reporter.tell(xid(0, n))
            await stage.clock.turn(1000)
            events = stage.api.events()
            assert len(events) == 64
            told = [e["message"] for e in events if "other events were left out" in e["message"]]
            assert len(told) == 1
            assert told[0].endswith("(936 other events were left out: too many at once)")

    run(work())


def test_an_event_that_the_server_has_forgotten_is_made_anew():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            stage.reporter.tell(xid())
            await stage.clock.turn()
            (first,) = stage.api.events()
            stage.api.store.delete(f"{EVENTS}/{first['metadata']['name']}")
            stage.reporter.tell(xid())
            await stage.clock.turn()
            (second,) = stage.api.events()
            assert second["count"] == 2
            assert second["metadata"]["name"] != first["metadata"]["name"]
            stage.reporter.tell(xid())
            await stage.clock.turn()
            assert stage.api.events()[0]["count"] == 3

    run(work())


def test_an_event_whose_answer_was_lost_is_not_made_twice():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            stage.api.loses_answers = 1
            stage.reporter.tell(xid())
            await stage.clock.turn()
            stage.reporter.tell(xid())
            await stage.clock.turn(10)
            (event,) = stage.api.events()
            assert event["count"] == 2

    run(work())


def test_an_api_that_is_away_is_told_once_and_everything_comes_when_it_is_back(caplog):
    caplog.set_level(logging.INFO)

    async def work():
        async with reporting() as stage:
            await stage.clock.turn(10)
            stage.api.down = unreachable()
            stage.node = BROKEN
            stage.reporter.tell(xid())
            stage.reporter.tell(xid(0, 48))
            await stage.clock.turn(600)
            asked = len(stage.api.requests)
            assert asked < 40
            stage.api.down = None
            await stage.clock.turn(80)
            assert [event["reason"] for event in stage.api.events()] == ["GPUXid"] * 2
            assert stage.api.condition()["status"] == "False"

    run(work())
    told = lines(caplog)
    assert len(told) == 2
    assert all("connection refused; trying again" in line for line in told)
    assert sum("are reported again" in line for line in lines(caplog, logging.INFO)) == 2


def test_events_that_cannot_be_told_for_an_hour_are_dropped_with_one_line(caplog):
    async def work():
        async with reporting(Report.EVENTS) as stage:
            stage.api.down = unreachable()
            for n in range(10):
                stage.reporter.tell(xid(0, n))
            await stage.clock.turn(4000)
            stage.api.down = None
            await stage.clock.turn(200)
            assert stage.api.events() == []

    run(work())
    dropped = [line for line in lines(caplog) if "dropped" in line]
    assert dropped == ["10 GPU health events could not be reported within 3600 s and are dropped"]


def test_rights_that_come_a_little_late_are_used_soon():
    async def work():
        async with reporting() as stage:
            stage.api.down = refused(403)
            stage.node = BROKEN
            stage.reporter.tell(xid())
            await stage.clock.turn(20)
            assert stage.api.events() == []
            stage.api.down = None
            await stage.clock.turn(30)
            assert len(stage.api.events()) == 1
            assert stage.api.condition()["status"] == "False"

    run(work())


def test_what_is_forbidden_is_told_once_with_the_rule_and_tried_seldom(caplog):
    async def work():
        async with reporting() as stage:
            stage.api.down = refused(403)
            stage.reporter.tell(xid())
            await stage.clock.turn(1500)
            assert len(stage.api.requests) <= 20
            stage.api.down = None
            stage.node = BROKEN
            await stage.clock.turn(600)
            assert len(stage.api.events()) == 1
            assert stage.api.condition()["status"] == "False"

    run(work())
    told = lines(caplog)
    assert len(told) == 2
    assert any('apiGroups: [""], resources: [events], verbs: [create, patch]' in t for t in told)
    assert any("resources: [nodes/status], verbs: [get, patch]" in t for t in told)


def test_who_may_write_but_not_read_the_node_still_writes():
    async def work():
        async with reporting(Report.CONDITION) as stage:
            await stage.clock.turn()
            assert stage.api.condition()["status"] == "True"

    api = StoreApi()
    api.problems = [refused(403)]

    async def with_it():
        async with reporting(Report.CONDITION, api=api) as stage:
            await stage.clock.turn()
            assert stage.api.condition()["status"] == "True"

    run(work())
    run(with_it())


def test_a_refused_event_does_not_hold_up_the_others(caplog):
    async def work():
        async with reporting(Report.EVENTS) as stage:
            stage.api.problems = [refused(422)]
            stage.reporter.tell(xid(0, 48))
            stage.reporter.tell(xid(0, 79))
            await stage.clock.turn()
            (event,) = stage.api.events()
            assert "XID 79" in event["message"]

    run(work())
    assert lines(caplog) == [
        (
            "a GPU health event is dropped: the Kubernetes API refused POST /x: 422 "
            "Unprocessable Entity: as told"
        )
    ]


def test_a_server_that_asks_for_patience_gets_it():
    async def work():
        async with reporting(Report.EVENTS) as stage:
            stage.api.problems = [refused(429, retry_after=50.0)]
            stage.reporter.tell(xid())
            await stage.clock.turn(49)
            assert len(stage.api.requests) == 1
            await stage.clock.turn(20)
            assert len(stage.api.events()) == 1

    run(work())


def test_the_condition_follows_the_state_even_if_nothing_is_told():
    async def work():
        async with reporting(Report.CONDITION) as stage:
            assert stage.api.condition()["status"] == "True"
            stage.node = BROKEN
            await stage.clock.turn(16)
            assert stage.api.condition()["status"] == "False"
            stage.node = healthy(0)
            stage.reporter.tell(xid())
            await stage.clock.turn(1)
            assert stage.api.condition()["status"] == "True"

    run(work())


def test_a_burst_is_one_change_of_the_condition():
    async def work():
        async with reporting(Report.CONDITION) as stage:
            before = len(stage.api.requests)
            stage.node = BROKEN
            for _ in range(1000):
                stage.reporter.tell(xid())
            stage.reporter.tell(Reloaded(Outcome.OK))
            stage.reporter.tell(Registered("nvidia.com/gpu", Outcome.OK))
            await stage.clock.turn(5)
            assert len(stage.api.requests) == before + 1

    run(work())


def test_a_condition_that_flaps_is_written_within_limits_and_is_right_in_the_end():
    async def work():
        async with reporting(Report.CONDITION) as stage:
            for n in range(601):
                stage.node = BROKEN if n % 2 else healthy(0)
                stage.reporter.tell(xid())
                await stage.clock.turn(1)
            stage.node = BROKEN
            await stage.clock.turn(20)
            assert stage.api.condition()["status"] == "False"
            assert len(stage.api.requests) < 70

    run(work())


def test_a_heartbeat_every_five_minutes_and_no_transition():
    async def work():
        async with reporting(Report.CONDITION) as stage:
            first = stage.api.condition()
            await stage.clock.turn(3000)
            last = stage.api.condition()
            assert last["lastTransitionTime"] == first["lastTransitionTime"]
            assert last["lastHeartbeatTime"] == "2023-11-14T23:20:00Z"
            assert len(stage.api.requests) == 12

    run(work())


def test_a_restart_clears_what_is_stale_and_keeps_the_time_of_what_is_not():
    async def work():
        api = StoreApi()
        async with reporting(Report.CONDITION, api=api, node=BROKEN) as stage:
            pass
        assert api.condition()["status"] == "False"
        since = api.condition()["lastTransitionTime"]
        async with reporting(Report.CONDITION, api=api, node=BROKEN) as stage:
            await stage.clock.turn(400)
            assert api.condition()["lastTransitionTime"] == since
        async with reporting(Report.CONDITION, api=api):
            assert api.condition()["status"] == "True"
        assert api.condition()["status"] == "Unknown"
        assert api.condition()["reason"] == "PluginStopped"

    run(work())


def test_nothing_is_said_while_the_node_is_being_read_but_not_for_ever():
    async def work():
        async with reporting(Report.CONDITION, node=NodeHealth()) as stage:
            await stage.clock.turn(30)
            assert stage.api.requests == []
            await stage.clock.turn(40)
            assert stage.api.condition()["reason"] == "PluginStarting"
            stage.node = healthy(0)
            await stage.clock.turn(16)
            assert stage.api.condition()["status"] == "True"

    run(work())


def test_a_moment_without_watching_is_not_worth_a_change():
    async def work():
        async with reporting(Report.CONDITION) as stage:
            stage.node = healthy(0, watching=Watching.OFF)
            await stage.clock.turn(16)
            stage.node = healthy(0)
            await stage.clock.turn(30)
            assert len(stage.api.requests) == 2
            stage.node = healthy(0, watching=Watching.BLIND)
            await stage.clock.turn(30)
            assert stage.api.condition()["status"] == "Unknown"

    run(work())


def test_a_node_that_is_not_there_yet_is_waited_for(caplog):
    api = StoreApi()
    api.store.delete(NODE)

    async def work():
        async with reporting(Report.CONDITION, api=api) as stage:
            await stage.clock.turn(5)
            api.store.put(NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
            await stage.clock.turn(60)
            assert api.condition()["status"] == "True"

    run(work())
    assert len(lines(caplog)) == 1


def test_access_that_is_not_there_yet_is_waited_for(caplog):
    api, tries = StoreApi(), list[int]()

    def connect() -> StoreApi:
        tries.append(1)
        if len(tries) < 3:
            raise AccessError("no kubeconfig")
        return api

    async def work():
        async with reporting(Report.CONDITION, connect=connect) as stage:
            await stage.clock.turn(100)
            assert api.condition()["status"] == "True"

    run(work())
    assert lines(caplog) == ["GPU health is not reported: no kubeconfig; trying again"]


def test_the_end_tells_what_is_left_but_waits_for_nobody(caplog, monkeypatch):
    monkeypatch.setattr("gpu_device_plugin.reports.reporter.END_SECONDS", 0.02)
    caplog.set_level(logging.INFO)

    async def work():
        async with reporting() as stage:
            stage.reporter.tell(xid())
        assert len(stage.api.events()) == 1
        async with reporting() as stage:
            stage.reporter.tell(xid())
            stage.api.hangs = True
        assert stage.api.is_closed

    run(work())
    assert lines(caplog, logging.INFO)[-1] == (
        "the last GPU health reports did not reach the Kubernetes API in time"
    )


def test_an_end_without_access_is_quiet():
    def connect() -> StoreApi:
        raise AccessError("no kubeconfig")

    async def work():
        async with reporting(connect=connect):
            pass

    run(work())


def test_a_mistake_in_the_reporter_harms_nobody(caplog):
    async def work():
        async with reporting() as stage:
            stage.node = None  # type: ignore[assignment]  # whatever it may be
            stage.reporter.tell(xid())
            await stage.clock.turn(20)
        assert stage.api.is_closed

    run(work())
    assert [r.getMessage() for r in caplog.records if r.exc_info] == [
        "GPU health is not reported any more",
        "the last GPU health reports failed",
    ]


def test_the_clock_of_the_machine_goes_on():
    async def work():
        clock, event = Clock(), asyncio.Event()
        began = clock.now()
        assert not await clock.wait(event, 0.01)
        await clock.sleep(0.01)
        assert clock.now() > began
        assert clock.wall() > 1.7e9
        event.set()
        assert await clock.wait(event, None)
        assert not event.is_set()

    run(work())
