"""The simulated node as a backend: what is read, and which events come."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from support.aio import run

from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind, UnreadableGpu
from gpu_device_plugin.hardware.simulated.backend import EVENTS_VARIABLE, SimulatedBackend
from gpu_device_plugin.hardware.simulated.node import SimulatedNode
from gpu_device_plugin.hardware.simulated.profile import load_profile, parse_profile_text

READY = HealthEvent(HealthKind.MONITOR_READY)
Next = Callable[[], Awaitable[HealthEvent]]


@pytest.fixture(autouse=True)
def no_control_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(EVENTS_VARIABLE, raising=False)


def a_backend(profile: str = "dgx-a100", events_file: str = "") -> SimulatedBackend:
    return SimulatedBackend(SimulatedNode(load_profile(profile)), events_file)


def watch(backend: SimulatedBackend, story: Callable[[Next], Awaitable[None]]) -> None:
    """Runs a story that is told the health events as it asks for them."""

    async def told() -> None:
        events: AsyncGenerator[HealthEvent, None] = backend.health_events(backend.read())
        async with aclosing(events):
            await story(events.__anext__)

    run(told())


def test_a_backend_is_made_from_a_name_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: t4x4\n")

    assert SimulatedBackend.from_profile("dgx-a100").name == "simulated"
    assert len(SimulatedBackend.from_profile("dgx-a100").read().gpus) == 8
    assert len(SimulatedBackend.from_profile(str(path)).read().gpus) == 4
    with pytest.raises(ConfigError):
        SimulatedBackend.from_profile("nothing")


def test_only_an_integrated_gpu_has_no_nvml() -> None:
    assert a_backend().is_loadable()
    assert not a_backend("jetson-orin").is_loadable()


def test_links_are_those_between_gpus_that_are_there() -> None:
    backend = a_backend("dgx-1")
    whole = backend.read_links(backend.read(), lambda: False)
    backend.node.lose(3)
    rest = backend.read_links(backend.read(), lambda: False)

    assert whole.nvlinks[0, 3] == 2
    assert (0, 3) not in rest.nvlinks
    assert rest.nvlinks[0, 4] == 2
    assert len(rest.ancestors) == 7 * 6


def test_an_xid_is_reported_with_the_instances_that_it_names() -> None:
    backend = a_backend()
    gpu = backend.read().gpus[3]

    async def story(event: Next) -> None:
        assert await event() == READY
        backend.node.xid(3, 48)
        assert await event() == HealthEvent(HealthKind.XID, uuid=gpu.uuid, xid=48, reason="XID 48")
        backend.node.xid(gpu.uuid, 62, (7, 0))
        hit = await event()
        assert (hit.gpu_instance, hit.compute_instance) == (7, 0)

    watch(backend, story)


def test_what_happened_before_the_watching_is_not_reported() -> None:
    backend = a_backend()
    backend.node.xid(3, 48)

    async def story(event: Next) -> None:
        assert await event() == READY
        backend.node.xid(4, 49)
        assert (await event()).xid == 49

    watch(backend, story)


def test_a_lost_gpu_reports_xid_79_and_cannot_be_read_until_it_is_back() -> None:
    backend = a_backend()

    async def story(event: Next) -> None:
        assert await event() == READY
        backend.node.lose(5)
        assert (await event()).xid == 79

    watch(backend, story)
    inventory = backend.read()
    assert [gpu.index for gpu in inventory.gpus] == [0, 1, 2, 3, 4, 6, 7]
    assert inventory.unreadable == (UnreadableGpu(5, "GPU is lost"),)
    backend.node.bring_back(5)
    assert len(backend.read().gpus) == 8


def test_gpus_that_cannot_be_watched_are_named_first_and_report_nothing() -> None:
    backend = a_backend()
    uuids = [gpu.uuid for gpu in backend.read().gpus]
    backend.node.make_unmonitorable(2)

    async def story(event: Next) -> None:
        first = await event()
        assert (first.kind, first.uuid) == (HealthKind.UNMONITORABLE, uuids[2])
        assert await event() == READY
        backend.node.xid(2, 48)
        backend.node.make_unmonitorable(6)
        second = await event()
        assert (second.kind, second.uuid) == (HealthKind.UNMONITORABLE, uuids[6])
        backend.node.bring_back(2)
        backend.node.xid(2, 48)
        assert (await event()).uuid == uuids[2]

    watch(backend, story)


def test_old_gpus_report_nothing_and_a_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    backend = a_backend("k80x2")

    async def story(event: Next) -> None:
        assert await event() == READY
        backend.node.xid(0, 48)
        backend.node.xid(1, 48)
        assert (await event()).uuid == backend.read().gpus[1].uuid

    with caplog.at_level(logging.WARNING):
        watch(backend, story)
    assert "counts as healthy and is not watched" in caplog.text


def test_a_monitor_that_fails_is_lost_and_can_be_ready_again() -> None:
    backend = a_backend()

    async def story(event: Next) -> None:
        assert await event() == READY
        backend.node.fail_monitor("Unknown Error")
        lost = await event()
        assert (lost.kind, lost.reason) == (HealthKind.MONITOR_LOST, "not watched: Unknown Error")
        backend.node.xid(0, 48)
        backend.node.heal_monitor()
        assert await event() == READY

    watch(backend, story)


def test_a_monitor_that_fails_from_the_beginning_is_not_started() -> None:
    backend = a_backend()
    backend.node.fail_monitor("Unknown Error")

    async def story(event: Next) -> None:
        assert (await event()).kind is HealthKind.MONITOR_NOT_STARTED
        backend.node.heal_monitor()
        assert await event() == READY

    watch(backend, story)


def test_a_driver_that_cannot_be_used_fails_every_read() -> None:
    backend = a_backend()
    backend.node.fail_init("Driver/library version mismatch")

    with pytest.raises(InitError, match="Driver/library version mismatch"):
        backend.read()
    backend.node.heal_init()
    assert len(backend.read().gpus) == 8
    with pytest.raises(InitError, match="Driver Not Loaded"):
        a_backend("no-driver").read()


def test_mig_layouts_change_at_the_next_read() -> None:
    backend = a_backend()
    before = backend.read()
    backend.node.set_mig(0, ("3g.20gb", "3g.20gb"))
    backend.node.set_mig(1, ())

    after = backend.read()

    assert not before.gpus[0].mig_enabled
    assert [str(mig.profile) for _, mig in after.mig_pairs()] == ["3g.20gb", "3g.20gb"]
    assert [gpu.mig_enabled for gpu in after.gpus[:3]] == [True, True, False]
    backend.node.set_mig(0, None)
    assert not backend.read().gpus[0].mig_enabled
    with pytest.raises(ConfigError, match=r"no MIG profile '1g\.9gb'"):
        backend.node.set_mig(0, ("1g.9gb",))


@pytest.mark.parametrize("gpu", ["8", "-1", "GPU-1", ""])
def test_unknown_gpus_are_refused(gpu: str) -> None:
    with pytest.raises(ConfigError, match=r"no GPU .* \(allowed: 0 to 7, or a UUID\)"):
        a_backend().node.lose(gpu)


def test_platforms_without_events_end_the_watching_at_once() -> None:
    backend = a_backend("jetson-orin")

    async def collected() -> list[HealthEvent]:
        return [event async for event in backend.health_events(backend.read())]

    assert not run(collected())


def test_every_watcher_is_told_until_it_ends() -> None:
    backend = a_backend()

    async def story() -> None:
        first, second = (backend.health_events(backend.read()) for _ in range(2))
        assert [await anext(first), await anext(second)] == [READY, READY]
        backend.node.xid(0, 48)
        assert (await anext(first)).xid == (await anext(second)).xid == 48
        await first.aclose()
        backend.node.xid(0, 49)
        assert (await anext(second)).xid == 49
        await second.aclose()
        backend.node.xid(0, 50)
        assert not backend.node._watchers

    run(story())


def test_the_control_file_is_followed_while_health_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "events"
    path.write_text("xid 1 48\nlost 2\n")
    monkeypatch.setenv(EVENTS_VARIABLE, str(path))
    backend = SimulatedBackend.from_profile("dgx-a100")

    async def story(event: Next) -> None:
        assert await event() == READY
        with path.open("a") as file:
            file.write("explode\nxid 99 48\nxid 3 94\n")
        assert (await event()).xid == 94

    with caplog.at_level(logging.WARNING):
        watch(backend, story)
    assert f"{path}:3: 'explode' is nothing that can happen" in caplog.text
    assert f"{path}:4: no GPU '99' (allowed: 0 to 7, or a UUID); ignored" in caplog.text
    assert len(backend.read().gpus) == 7


def test_the_control_file_is_read_before_the_node(tmp_path: Path) -> None:
    path = tmp_path / "events"
    backend = a_backend(events_file=str(path))

    path.write_text("init-error broken\n")
    with pytest.raises(InitError, match="broken"):
        backend.read()
    path.write_text("init-error broken\ninit-ok\nmig 0 7g.40gb\n")
    assert backend.read().gpus[0].mig_devices


def test_a_profile_can_name_its_control_file(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("base: t4x4\nevents: ev\n")
    (tmp_path / "ev").write_text("lost 0\n")

    assert len(SimulatedBackend.from_profile(str(path)).read().gpus) == 3


def test_a_node_is_told_from_any_thread() -> None:
    backend = SimulatedBackend(SimulatedNode(parse_profile_text("base: t4x4", "node.yaml")))

    async def story(event: Next) -> None:
        assert await event() == READY
        await asyncio.to_thread(backend.node.xid, 1, 48)
        assert (await event()).xid == 48

    watch(backend, story)
