"""Health events on boards that may be exchanged."""

from __future__ import annotations

import asyncio
import errno
import logging
from contextlib import aclosing

import pytest
from support.aio import run, until
from support.backends import ToldBackend
from support.inventories import a_node

from gpu_device_plugin.hardware.model import HealthEvent, HealthKind
from gpu_device_plugin.plugin import health as module
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.health import SILENCE_SECONDS, HealthWatch, apply_event
from gpu_device_plugin.plugin.watch_state import WatchState
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.telemetry import HealthChanged, Turn

READY = HealthEvent(HealthKind.MONITOR_READY)
NOT_STARTED = HealthEvent(HealthKind.MONITOR_NOT_STARTED, reason="not watched: no driver")


def xid(gpu: int, number: int = 79) -> HealthEvent:
    return HealthEvent(HealthKind.XID, f"GPU-{gpu}", number, reason=f"XID {number}")


def a_board(name: str = "nvidia.com/gpu") -> DeviceBoard:
    devices = tuple(
        Device(id=f"{name}-{n}", index=str(n), gpu_uuid=f"GPU-{n}", gpu_index=n) for n in range(2)
    )
    return DeviceBoard(Resource(name, devices))


def reasons(board: DeviceBoard) -> dict[str, str]:
    return {device_id: ailment.reason for device_id, ailment in board.ailments.items()}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "FIRST_LIST_SECONDS", 0.02)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(module, "HAND_OVER_SECONDS", 0.02)


async def read(board: DeviceBoard) -> None:
    async with aclosing(board.lists()) as lists:
        async for _ in lists:
            pass


def test_events_mark_all_boards_and_boards_may_change():
    async def work():
        backend, watch = ToldBackend(a_node(2)), HealthWatch()
        old, new = a_board(), a_board("nvidia.com/other")
        watch.show_on([old], HealthPolicy())
        await watch.take(backend, a_node(2))
        assert watch.is_running
        backend.queue.put_nowait(xid(0))
        await until(lambda: reasons(old) == {"nvidia.com/gpu-0": "XID 79"})
        watch.show_on([new], HealthPolicy())
        backend.queue.put_nowait(xid(1))
        await until(lambda: reasons(new) == {"nvidia.com/other-1": "XID 79"})
        assert len(old.ailments) == 1
        await watch.stop()
        assert backend.closed
        assert not watch.is_running
        await watch.stop()

    run(work())


def test_each_change_is_a_list_of_its_own_for_whoever_reads():
    async def work():
        backend, watch, board = ToldBackend(a_node(2)), HealthWatch(), a_board()
        reader = asyncio.create_task(read(board))
        watch.show_on([board], HealthPolicy())
        for gpu in (0, 1):
            backend.queue.put_nowait(xid(gpu))
        await watch.take(backend, a_node(2))
        await until(lambda: board.lists_sent == 3)
        await watch.stop()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    run(work())


def test_a_driver_that_holds_the_monitor_up_is_noticed_and_changes_nothing_else():
    async def work():
        now = 1000.0
        backend, board = ToldBackend(a_node(2)), a_board()
        watch = HealthWatch(steady=lambda: now)
        watch.show_on([board], HealthPolicy())
        backend.queue.put_nowait(HealthEvent(HealthKind.MONITOR_ALIVE))
        taking = asyncio.create_task(watch.take(backend, a_node(2)))
        await until(lambda: watch._last_sign is not None)
        states = [watch.state]
        now += SILENCE_SECONDS + 1
        states.append(watch.state)
        assert states == [WatchState.STARTING, WatchState.HELD]
        backend.queue.put_nowait(HealthEvent(HealthKind.MONITOR_ALIVE))
        backend.queue.put_nowait(READY)
        await until(lambda: watch.state is WatchState.WATCHING)
        now += SILENCE_SECONDS + 1
        states.append(watch.state)
        assert states[-1] is WatchState.HELD
        assert not board.ailments
        await taking
        await watch.stop()

    run(work())


def test_a_backend_without_signs_of_life_is_not_expected_to_give_any():
    async def work():
        now = 1000.0
        backend, watch = ToldBackend(a_node(2)), HealthWatch(steady=lambda: now)
        watch.show_on([a_board()], HealthPolicy())
        backend.queue.put_nowait(READY)
        await watch.take(backend, a_node(2))
        await until(lambda: watch.state is WatchState.WATCHING)
        now += 10 * SILENCE_SECONDS
        assert watch.state is WatchState.WATCHING
        await watch.stop()

    run(work())


def test_nothing_is_watched_where_the_policy_says_so(caplog):
    async def work():
        watch = HealthWatch()
        watch.show_on([a_board()], HealthPolicy.of({"DP_DISABLE_HEALTHCHECKS": "all"}))
        await watch.take(ToldBackend(a_node(2)), a_node(2))
        assert not watch.is_running

    with caplog.at_level(logging.INFO):
        run(work())
    assert "DP_DISABLE_HEALTHCHECKS" in caplog.text


def test_a_backend_that_breaks_is_logged(caplog):
    async def work():
        backend, watch = ToldBackend(a_node(2)), HealthWatch()
        watch.show_on([a_board()], HealthPolicy())
        await watch.take(backend, a_node(2))
        backend.queue.put_nowait(LookupError("broken"))
        await until(lambda: not watch.is_running)
        await watch.stop()

    run(work())
    assert "not watched any more" in caplog.text
    assert "LookupError: broken" in caplog.text


def test_a_limit_of_the_system_is_told_and_watching_tried_again(caplog, monkeypatch):
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)

    async def work():
        backend, watch, board = ToldBackend(a_node(2)), HealthWatch(), a_board()
        watch.show_on([board], HealthPolicy())
        await watch.take(backend, a_node(2))
        backend.queue.put_nowait(OSError(errno.EAGAIN, "no thread can be started"))
        await until(lambda: watch.state is WatchState.BLIND)
        assert len(board.ailments) == board.resource.size
        backend.queue.put_nowait(READY)
        await until(lambda: watch.state is WatchState.WATCHING)
        assert not board.ailments
        await watch.stop()

    run(work())
    assert "GPU health is not watched: [Errno 11] no thread can be started; next" in caplog.text
    assert "Traceback" not in caplog.text


def test_devices_that_could_not_be_watched_are_healthy_once_they_are():
    board = a_board()

    assert apply_event(NOT_STARTED, HealthPolicy(), [board], 0)
    assert set(reasons(board).values()) == {"not watched: no driver"}
    assert not apply_event(NOT_STARTED, HealthPolicy(), [board], 0)
    assert not apply_event(xid(1), HealthPolicy(), [board], 0)
    assert apply_event(READY, HealthPolicy(), [board], 0)
    assert list(board.ailments) == ["nvidia.com/gpu-1"]
    assert not apply_event(READY, HealthPolicy(), [board], 0)


def test_a_monitor_that_was_lost_leaves_its_marks():
    board = a_board()
    lost = HealthEvent(HealthKind.MONITOR_LOST, reason="GPU is lost")

    assert apply_event(lost, HealthPolicy(), [board], 0)
    assert not apply_event(READY, HealthPolicy(), [board], 0)
    assert len(board.ailments) == 2


@pytest.mark.parametrize("event", [xid(0, 31), xid(7)])
def test_events_that_do_not_count_are_logged_and_change_nothing(event, caplog):
    board = a_board()

    with caplog.at_level(logging.INFO):
        assert not apply_event(event, HealthPolicy(), [board], 0)
    assert "ignored" in caplog.text
    assert board.ailments == {}


def test_a_new_monitor_takes_over_without_a_gap(monkeypatch):
    """The former one goes on until the new one is ready."""
    monkeypatch.setattr(module, "HAND_OVER_SECONDS", 5)

    async def work():
        former, new, watch, board = (
            ToldBackend(a_node(2)),
            ToldBackend(a_node(2)),
            HealthWatch(),
            a_board(),
        )
        watch.show_on([board], HealthPolicy())
        await watch.take(former, a_node(2))
        taking = asyncio.create_task(watch.take(new, a_node(2)))
        await asyncio.sleep(0)
        former.queue.put_nowait(xid(0))
        await until(lambda: list(board.ailments) == ["nvidia.com/gpu-0"])
        new.queue.put_nowait(READY)
        await taking
        assert former.closed
        assert watch.is_monitoring
        new.queue.put_nowait(xid(1))
        await until(lambda: len(board.ailments) == 2)
        await watch.stop()

    run(work())


def test_a_gpu_that_is_watched_at_last_is_healthy_again():
    board = a_board()
    unmonitorable = HealthEvent(HealthKind.UNMONITORABLE, "GPU-0", reason="cannot be watched")

    assert apply_event(unmonitorable, HealthPolicy(), [board], 0)
    assert (
        apply_event(HealthEvent(HealthKind.MONITORABLE, "GPU-1"), HealthPolicy(), [board], 0)
        is False
    )
    assert apply_event(HealthEvent(HealthKind.MONITORABLE, "GPU-0"), HealthPolicy(), [board], 0)
    assert board.ailments == {}


def test_boards_without_a_reader_delay_events_once_only(monkeypatch):
    monkeypatch.setattr(module, "FIRST_LIST_SECONDS", 0.2)

    async def work():
        backend, watch = ToldBackend(a_node(2)), HealthWatch()
        board = a_board()
        watch.show_on([board], HealthPolicy())
        await watch.take(backend, a_node(2))
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for gpu in (0, 1):
            backend.queue.put_nowait(xid(gpu))
        await until(lambda: len(board.ailments) == 2)
        assert loop.time() - begin < 0.39
        await watch.stop()

    run(work())


def test_what_is_watched_again_is_told():
    board, told = a_board(), list[object]()
    apply_event(NOT_STARTED, HealthPolicy(), [board], 0, told.append)
    apply_event(READY, HealthPolicy(), [board], 0, told.append)
    apply_event(READY, HealthPolicy(), [board], 0, told.append)

    devices = (("nvidia.com/gpu", "nvidia.com/gpu-0"), ("nvidia.com/gpu", "nvidia.com/gpu-1"))
    assert told[1:] == [HealthChanged(Turn.HEALTHY, "", "watched", devices=devices)]
