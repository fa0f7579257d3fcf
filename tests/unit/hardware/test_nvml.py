"""The NVML backend, through the C ABI of a simulated library."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from dataclasses import replace

import pynvml
import pytest
from support.aio import run
from support.backends import news

from gpu_device_plugin.errors import InitError
from gpu_device_plugin.hardware.backend import NvmlBackend
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind, Platform
from gpu_device_plugin.hardware.nvml import health

PROFILES = [
    "dgx-a100",
    "dgx-1",
    "dgx-2",
    "t4x4",
    "k80x2",
    "gh200",
    "hgx-b200",
    "dgx-a100-mig",
    "a30-mig",
    "hgx-h100-mig",
]


@pytest.mark.parametrize("profile", PROFILES)
def test_nvml_tells_what_the_simulated_node_is(node, profile):
    made = node(profile)

    assert made.backend.read() == made.truth


@pytest.mark.parametrize("profile", PROFILES)
def test_nvml_tells_the_links_of_the_simulated_node(node, profile):
    made = node(profile)

    assert made.backend.read_links(made.backend.read(), lambda: False) == made.links


def test_reading_links_ends_early_when_asked(node):
    made = node("dgx-1")

    assert made.backend.read_links(made.backend.read(), lambda: True).ancestors == {}


@pytest.mark.parametrize(
    "query", ["HandleByIndex_v2@1 15", "Name@1 999", "UUID@1 999", "MinorNumber@1 3"]
)
def test_a_gpu_that_cannot_be_told_is_unreadable_and_the_others_stand(node, query):
    got = node("t4x4", f"fail nvmlDeviceGet{query}").backend.read()

    assert [gpu.index for gpu in got.gpus] == [0, 2, 3]
    assert [gpu.index for gpu in got.unreadable] == [1]
    assert got.unreadable[0].reason


@pytest.mark.parametrize(
    ("query", "changes"),
    [
        ("MemoryInfo@1 3", {"memory_bytes": 0}),
        ("CudaComputeCapability@1 999", {"compute_capability": None}),
        ("PciInfo_v3@1 999", {"pci_bus_id": "", "pci_device_id": 0, "numa_node": None}),
        ("Brand@1 3", {"brand": 0}),
        ("AddressingMode@1 3", {}),
        ("AddressingMode@1 999", {"coherent": None}),
    ],
)
def test_what_need_not_be_known_may_fail(node, query, changes):
    made = node("t4x4", f"fail nvmlDeviceGet{query}")

    got = made.backend.read()

    assert got.gpus[1] == replace(made.truth.gpus[1], **changes)
    assert not got.unreadable


def test_display_gpus_do_not_count_and_leave_a_gap(node):
    made = node("t4x4")
    display = replace(made.truth.gpus[1], name="NVIDIA DGX Display")
    made.truth = replace(made.truth, gpus=(made.truth.gpus[0], display, *made.truth.gpus[2:]))
    made.describe()

    assert [gpu.index for gpu in made.backend.read().gpus] == [0, 2, 3]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("fail nvmlInit_v2 9", "Driver Not Loaded"),
        ("fail nvmlInit_v2 4", "Insufficient Permissions"),
        ("fail nvmlDeviceGetCount_v2 999", "cannot count the GPUs"),
    ],
)
def test_a_driver_that_cannot_be_used_is_an_init_error(node, failure, message):
    backend = node("t4x4", failure).backend

    with pytest.raises(InitError, match=message):
        backend.read()


@pytest.mark.usefixtures("no_nvml")
def test_a_missing_library_is_an_init_error_with_a_hint(tmp_path):
    backend = NvmlBackend(str(tmp_path))

    assert not backend.is_loadable()
    with pytest.raises(InitError, match=r"libnvidia-ml-absent.so.1.*NVIDIA Container Toolkit"):
        backend.read()


def test_mig_mode_that_cannot_be_read_is_told(node):
    got = node("dgx-a100", "fail nvmlDeviceGetMigMode@2 999").backend.read()

    assert [gpu.mig_problem for gpu in got.gpus if gpu.mig_problem] == ["Unknown Error"]
    assert got.gpus[2].mig_problem


def test_what_a_gpu_could_be_cut_into_is_apart_from_what_it_is_cut_into(node):
    made = node("dgx-a100-mig", "fail nvmlDeviceGetGpuInstanceProfileInfo 999")

    whole = next(gpu for gpu in made.backend.read().gpus if not gpu.mig_enabled)
    cut = next(gpu for gpu in made.backend.read().gpus if gpu.mig_enabled)

    assert whole.mig_capable
    assert (whole.mig_problem, whole.mig_profiles_problem) == ("", "Unknown Error")
    # Its devices are called by profiles, too.
    assert (cut.mig_problem, cut.mig_profiles_problem) == ("Unknown Error", "Unknown Error")


def test_missing_permission_names_the_variable(node):
    got = node("dgx-a100-mig", "fail nvmlDeviceGetMigDeviceHandleByIndex 4").backend.read()

    problems = {gpu.mig_problem for gpu in got.gpus if gpu.mig_enabled}
    assert len(problems) == 1
    assert "NVIDIA_MIG_MONITOR_DEVICES" in problems.pop()


def test_links_that_cannot_be_read_are_named_and_the_others_stand(node):
    made = node("dgx-1", "fail nvmlDeviceGetNvLinkState@5 15")

    got = made.backend.read_links(made.backend.read(), lambda: False)

    assert len(got.problems) == 1
    assert got.problems[0].startswith("GPU 5: ")
    assert got.nvlinks[0, 3] == made.links.nvlinks[0, 3]


def test_a_lost_gpu_has_no_links_and_a_problem(node):
    made = node("dgx-1")
    inventory = made.backend.read()
    made.describe(["fail nvmlDeviceGetHandleByIndex_v2@5 15"])

    got = made.backend.read_links(inventory, lambda: False)

    assert [problem[:6] for problem in got.problems] == ["GPU 5:"]
    assert not any(5 in pair for pair in got.ancestors)


def watch(made, lines: list[str], count: int) -> list[HealthEvent]:
    """The first events after the monitor is ready and something has happened."""

    async def work() -> list[HealthEvent]:
        inventory = await asyncio.to_thread(made.backend.read)
        seen = []
        async with aclosing(news(made.backend, inventory)) as events:
            async for event in events:
                if event.kind is HealthKind.MONITOR_READY and lines:
                    made.happen(*lines)
                    lines.clear()
                    continue
                seen.append(event)
                if len(seen) == count:
                    break
        return seen

    return run(work())


def test_xids_come_with_gpu_and_instances(node):
    made = node("dgx-a100-mig")
    gpus = made.truth.gpus

    got = watch(made, ["event 2 1 79", "xid 0 79", "xid 1 48 3 0"], 2)

    assert [(e.kind, e.uuid, e.xid, e.gpu_instance, e.compute_instance) for e in got] == [
        (HealthKind.XID, gpus[0].uuid, 79, None, None),
        (HealthKind.XID, gpus[1].uuid, 48, 3, 0),
    ]


def test_a_gpu_that_cannot_be_told_means_every_gpu(node):
    got = watch(node("t4x4"), ["xid 1 63"], 1)

    assert got[0].uuid is not None
    assert got[0].reason == "XID 63"


def test_a_gpu_that_cannot_be_registered_is_told(node):
    made = node("t4x4", "fail nvmlDeviceRegisterEvents@1 999")

    got = watch(made, [], 1)

    assert (got[0].kind, got[0].uuid) == (HealthKind.UNMONITORABLE, made.truth.gpus[1].uuid)


def test_a_gpu_that_can_be_registered_later_is_told_and_watched(node, monkeypatch):
    made = node("t4x4")
    uuid = made.truth.gpus[1].uuid
    genuine, refused = pynvml.nvmlDeviceRegisterEvents, list[str]()

    def refuse_once(handle, kinds, events):
        if not refused and pynvml.nvmlDeviceGetUUID(handle) == uuid:
            refused.append(uuid)
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        genuine(handle, kinds, events)

    monkeypatch.setattr(pynvml, "nvmlDeviceRegisterEvents", refuse_once)
    monkeypatch.setattr(health, "REGISTER_SECONDS", 0.0)
    monkeypatch.setattr(health, "WAIT_MS", 1)

    async def work():
        inventory = await asyncio.to_thread(made.backend.read)
        seen = []
        async with aclosing(news(made.backend, inventory)) as events:
            async for event in events:
                seen.append((event.kind, event.uuid))
                if event.kind is HealthKind.MONITORABLE:
                    made.happen("xid 1 79")
                if event.kind is HealthKind.XID:
                    break
        return seen

    assert run(work()) == [
        (HealthKind.UNMONITORABLE, uuid),
        (HealthKind.MONITOR_READY, None),
        (HealthKind.MONITORABLE, uuid),
        (HealthKind.XID, uuid),
    ]


@pytest.mark.parametrize(
    "failure",
    ["fail nvmlDeviceRegisterEvents@1 3", "fail nvmlDeviceGetSupportedEventTypes@1 3"],
)
def test_a_gpu_without_events_is_left_in_peace(node, failure):
    made = node("t4x4", failure)

    got = watch(made, ["xid 2 79"], 1)

    assert got[0].uuid == made.truth.gpus[2].uuid


def test_a_failing_wait_is_a_lost_monitor_that_comes_back(node):
    got = watch(node("t4x4"), ["error 15"], 2)

    assert [event.kind for event in got] == [HealthKind.MONITOR_LOST, HealthKind.MONITOR_READY]


def test_a_monitor_that_cannot_start_is_told_and_tried_again(node):
    made = node("t4x4", "fail nvmlEventSetCreate 999")

    async def work() -> list[HealthKind]:
        inventory = await asyncio.to_thread(made.backend.read)
        kinds = []
        async with aclosing(news(made.backend, inventory)) as events:
            async for event in events:
                kinds.append(event.kind)
                made.describe()
                if event.kind is HealthKind.MONITOR_READY:
                    break
        return kinds

    assert run(work()) == [HealthKind.MONITOR_NOT_STARTED, HealthKind.MONITOR_READY]


def test_a_monitor_gives_signs_of_life_as_long_as_the_driver_answers(node, monkeypatch):
    monkeypatch.setattr(health, "ALIVE_SECONDS", 0.0)
    monkeypatch.setattr(health, "WAIT_MS", 1)
    made = node("t4x4")

    async def work() -> list[HealthKind]:
        inventory = await asyncio.to_thread(made.backend.read)
        kinds = []
        async with aclosing(made.backend.health_events(inventory)) as events:
            async for event in events:
                kinds.append(event.kind)
                if len(kinds) == 4:
                    break
        return kinds

    alive, ready = HealthKind.MONITOR_ALIVE, HealthKind.MONITOR_READY
    assert run(work()) == [alive, ready, alive, alive]


def test_an_error_in_the_monitors_thread_is_handed_to_whoever_watches(node, monkeypatch):
    def broken(*_: object) -> None:
        raise LookupError("broken")

    monkeypatch.setattr(pynvml, "nvmlEventSetCreate", broken)
    made = node("t4x4")

    async def work() -> None:
        inventory = await asyncio.to_thread(made.backend.read)
        async with aclosing(news(made.backend, inventory)) as events:
            await anext(events)

    with pytest.raises(LookupError, match="broken"):
        run(work())


def test_wsl_reports_no_events(node):
    made = node("t4x4")
    backend = NvmlBackend(str(made.root), Platform.WSL)

    async def work():
        return [event async for event in backend.health_events(backend.read())]

    assert run(work()) == []


@pytest.mark.parametrize("query", ["nvmlDeviceGetMinorNumber", "nvmlDeviceGetUUID"])
def test_on_wsl_a_gpu_needs_neither_minor_nor_uuid(node, query):
    """One device stands for all GPUs there, but its labels tell what NVML does."""
    made = node("t4x4", f"fail {query} 3")
    expected = made.truth.gpus

    got = NvmlBackend(str(made.root), Platform.WSL).read()

    assert not got.unreadable
    assert [(g.name, g.memory_bytes, g.compute_capability) for g in got.gpus] == [
        (g.name, g.memory_bytes, g.compute_capability) for g in expected
    ]
    assert len({gpu.uuid for gpu in got.gpus}) == 4
    assert len({gpu.minor for gpu in got.gpus}) == 4


def test_a_monitor_without_a_thread_is_an_error_of_the_system(nvml_node, monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def work():
        node = nvml_node("t4x4")
        monkeypatch.setattr(threading.Thread, "start", refuse)
        async with aclosing(node.backend.health_events(node.truth)) as events:
            with pytest.raises(OSError, match="no thread can be started"):
                await anext(events)

    run(work())
