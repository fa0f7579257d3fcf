"""Devices that become healthy again, where that is switched on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from support.aio import run, until
from support.backends import ToldBackend
from support.inventories import a_gpu, a_node

from gpu_device_plugin.config.model import HealthSettings, RecoverySettings
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind, UnreadableGpu
from gpu_device_plugin.plugin import health
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.health import HealthWatch
from gpu_device_plugin.plugin.recovery import Recovery
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.resources.model import Device, Resource

QUIET = 60.0


class Scene:
    """Two GPUs, the second one cut in two, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall = 1.7e9
        self.backend = ToldBackend(a_node(2))
        self.devices = (
            Device(id="A", index="0", gpu_uuid="GPU-0", replicas=2),
            Device(id="B0", index="1:0", gpu_uuid="GPU-1", gpu_index=1, mig_instances=(1, 0)),
            Device(id="B1", index="1:1", gpu_uuid="GPU-1", gpu_index=1, mig_instances=(2, 0)),
        )
        self.board = DeviceBoard(Resource("nvidia.com/gpu", self.devices))
        self.recovery = Recovery(self.backend, a_node(2), lambda: [self.board], lambda: self.now)

    def ail(self, *positions: int, severity: Severity = Severity.RECOVERABLE) -> None:
        ailment = Ailment("XID 69", severity, 0, self.wall, heard=self.now)
        self.board.mark_unhealthy([self.devices[n] for n in positions], ailment)

    def look(self, after: float) -> list[str]:
        """The devices that are still unhealthy after a look, so many seconds later."""
        self.now += after
        run(self.recovery.look(QUIET))
        return sorted(self.board.ailments)


def test_a_device_is_back_after_a_quiet_period_and_not_before():
    scene = Scene()
    scene.ail(0)

    assert scene.look(QUIET - 1) == ["A"]
    assert scene.look(1) == []


@pytest.mark.parametrize("jump", [-86400, 86400])
def test_a_clock_that_is_set_neither_shortens_nor_lengthens_the_wait(jump):
    scene = Scene()
    scene.ail(0)
    scene.wall += jump
    scene.ail(0)

    assert scene.look(QUIET - 1) == ["A"]
    assert scene.look(1) == []


def test_a_repeated_error_begins_the_wait_anew():
    scene = Scene()
    scene.ail(0)
    scene.now += QUIET - 1
    scene.ail(0)

    assert scene.look(QUIET - 1) == ["A"]
    assert scene.look(1) == []


@pytest.mark.parametrize("severity", [Severity.UNTIL_RESET, Severity.LOST, Severity.PROVISIONAL])
def test_what_time_does_not_heal_stays(severity):
    scene = Scene()
    scene.ail(0, severity=severity)

    assert scene.look(100 * QUIET) == ["A"]


def test_one_firm_ailment_on_a_gpu_keeps_all_of_its_devices_away():
    scene = Scene()
    scene.ail(1)
    scene.ail(2, severity=Severity.UNTIL_RESET)

    assert scene.look(2 * QUIET) == ["B0", "B1"]


def test_a_gpu_that_the_driver_has_something_against_stays_and_is_named_once(caplog):
    scene = Scene()
    scene.ail(0)
    scene.backend.problems["GPU-0"] = "it needs a reset of the GPU"

    assert scene.look(QUIET) == ["A"]
    assert scene.look(QUIET) == ["A"]
    assert caplog.text.count("it needs a reset of the GPU") == 1
    scene.backend.problems.clear()
    assert scene.look(QUIET) == []


def test_devices_of_unknown_gpus_are_left_alone():
    scene = Scene()
    stranger = Device(id="X", index="9", gpu_uuid="GPU-9")
    scene.board.update(Resource("nvidia.com/gpu", (*scene.devices, stranger)))
    ailment = Ailment("XID 69", Severity.RECOVERABLE, 0, 0, heard=0)
    scene.board.mark_unhealthy([stranger], ailment)

    assert scene.look(QUIET) == ["X"]


@pytest.mark.parametrize("enabled", [True, False])
def test_recovery_runs_where_it_is_enabled(monkeypatch, enabled):
    monkeypatch.setattr(health, "FIRST_LIST_SECONDS", 0.01)

    async def work():
        scene = Scene()
        settings = HealthSettings(recovery=RecoverySettings(enabled, quiet_period=20_000_000))
        watch = HealthWatch()
        watch.show_on([scene.board], HealthPolicy.of({}, settings))
        await watch.take(scene.backend, a_node(2))
        event = HealthEvent(HealthKind.XID, "GPU-0", 69, reason="XID 69")
        scene.backend.queue.put_nowait(event)
        await until(lambda: list(scene.board.ailments) == ["A"])
        if enabled:
            await until(lambda: not scene.board.ailments)
        else:
            await asyncio.sleep(0.1)
            assert list(scene.board.ailments) == ["A"]
        await watch.stop()

    run(work())


def test_a_failing_look_does_not_end_the_recovery(caplog):
    calls = []

    def broken_clock() -> float:
        calls.append(1)
        raise LookupError("no time")

    async def work():
        scene = Scene()
        recovery = Recovery(scene.backend, a_node(2), lambda: [scene.board], broken_clock)
        task = asyncio.create_task(recovery.run(0.001))
        await until(lambda: len(calls) >= 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(work())
    assert "the recovery of devices failed" in caplog.text


def test_lost_gpus_are_marked_until_they_are_found_again():
    scene = Scene()
    watch = HealthWatch()
    watch.show_on([scene.board], HealthPolicy())

    watch.show_lost([a_gpu(0, lost="GPU is lost"), a_gpu(1)])
    assert scene.board.ailments["A"].severity is Severity.LOST
    watch.show_lost([a_gpu(0), a_gpu(1)])
    assert scene.board.ailments == {}


def test_inventories_keep_what_was_lost():
    before = a_node(3)
    after = a_node([a_gpu(0), a_gpu(2)])
    lost = tuple(UnreadableGpu(index, "GPU is lost") for index in (1, 7))
    gone = replace(after, unreadable=lost)

    got = gone.keeping_lost(before)

    assert [(gpu.index, gpu.lost) for gpu in got.gpus] == [(0, ""), (1, "GPU is lost"), (2, "")]
    assert [u.index for u in got.unreadable] == [7]
    assert gone.keeping_lost(None) == gone
    assert after.keeping_lost(before) == after
