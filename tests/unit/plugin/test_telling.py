"""What the plugin tells of what happens: each thing once, failures too."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from support.aio import run, until
from support.backends import ToldBackend
from support.configs import a_config
from support.inventories import a_gpu, a_node
from support.serving import GPU, a_service, allocatable, two_gpus

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import AllocationPolicy
from gpu_device_plugin.errors import ConfigError, RequestError, UnwritableError, UserError
from gpu_device_plugin.hardware.model import Gpu, HealthEvent, HealthKind, Links
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import KubeletUnreachable, RegistrationRefused
from gpu_device_plugin.plugin import companions as companions_module
from gpu_device_plugin.plugin import preference
from gpu_device_plugin.plugin import served as served_module
from gpu_device_plugin.plugin import service as service_module
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.health import HealthWatch, apply_event
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.node import NodeReader
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.recovery import Recovery
from gpu_device_plugin.plugin.response import AllocationSettings
from gpu_device_plugin.plugin.served import Register, ServedResource
from gpu_device_plugin.plugin.service import ResourceService
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.telemetry import (
    Answered,
    Call,
    ChosenWithoutLinks,
    Happening,
    HealthChanged,
    ListSent,
    Outcome,
    Registered,
    Reloaded,
    StreamOpened,
    Turn,
)

H = TypeVar("H")

READY = HealthEvent(HealthKind.MONITOR_READY)


class Told(list[Happening]):
    """All that was told."""

    def of(self, kind: type[H]) -> list[H]:
        return [each for each in self if isinstance(each, kind)]


@pytest.fixture
def told() -> Told:
    return Told()


def service(told: Told) -> ResourceService:
    return ResourceService(
        DeviceBoard(two_gpus()),
        AllocationSettings.of(a_config()),
        LinkedGpus([a_gpu(0), a_gpu(1)], told.append),
        AllocationPolicy.DISTRIBUTED,
        told.append,
    )


def asked_for(*ids: str) -> pb.AllocateRequest:
    containers = [pb.ContainerAllocateRequest(devices_ids=[each]) for each in ids]
    return pb.AllocateRequest(container_requests=containers)


def preferring(*ids: str) -> pb.PreferredAllocationRequest:
    container = pb.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=1)
    return pb.PreferredAllocationRequest(container_requests=[container])


class TestAnswers:
    @staticmethod
    def answer(told: Told) -> tuple[Call, str, Outcome]:
        (answered,) = told.of(Answered)
        assert answered.seconds > 0
        return answered.call, answered.resource, answered.outcome

    def test_an_allocation_of_several_containers_is_one_answer(self, told):
        run(service(told).allocate(asked_for("GPU-0", "GPU-1")))
        assert self.answer(told) == (Call.ALLOCATE, GPU, Outcome.OK)

    def test_an_unknown_device_is_refused(self, told):
        with pytest.raises(RequestError):
            run(service(told).allocate(asked_for("GPU-9")))
        assert self.answer(told) == (Call.ALLOCATE, GPU, Outcome.REFUSED)

    def test_a_programming_error_is_a_failure(self, told, monkeypatch):
        monkeypatch.setattr(service_module, "make_response", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(service(told).allocate(asked_for("GPU-0")))
        assert self.answer(told) == (Call.ALLOCATE, GPU, Outcome.FAILED)

    def test_a_preference_is_an_answer(self, told):
        run(service(told).preferred(preferring("GPU-0")))
        assert self.answer(told) == (Call.PREFER, GPU, Outcome.OK)
        assert len(told) == 1

    def test_a_preference_among_unknown_devices_is_refused(self, told):
        with pytest.raises(RequestError):
            run(service(told).preferred(preferring("GPU-9")))
        assert self.answer(told) == (Call.PREFER, GPU, Outcome.REFUSED)

    def test_a_preference_that_does_without_links_says_so(self, told, monkeypatch):
        monkeypatch.setattr(preference, "LINKS_WAIT", 0.001)
        run(service(told).preferred(preferring("GPU-0", "GPU-1")))
        assert told.of(ChosenWithoutLinks) == [ChosenWithoutLinks(GPU)]
        assert self.answer(told) == (Call.PREFER, GPU, Outcome.OK)

    def test_a_preference_with_links_says_nothing_of_them(self, told):
        async def work():
            gpus = LinkedGpus([a_gpu(0), a_gpu(1)], told.append)
            gpus.set_links(Links())
            await gpus.prefer(two_gpus(), ["GPU-0", "GPU-1"], [], 1)

        run(work())
        assert told == []


def test_a_stream_is_told_once_and_each_list_that_it_is_sent(told):
    async def work():
        serving = service(told)
        async with aclosing(serving.device_lists()) as lists:
            await anext(lists)
            following = asyncio.create_task(anext(lists))
            await until(lambda: len(told.of(ListSent)) == 1)
            device = serving.resource.devices[0]
            serving.board.mark_unhealthy([device], Ailment("XID 79", Severity.RECOVERABLE, 0, 0))
            await following
        assert told == [StreamOpened(GPU), ListSent(GPU)], "the second one was not asked on"

    run(work())


class TestRegistrations:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        class NoPause:
            attempts = 1

            def __init__(self, *_: float) -> None: ...

            def next(self) -> float:
                return 0.001

            def reset(self) -> None: ...

        monkeypatch.setattr(served_module, "Backoff", NoPause)

    @asynccontextmanager
    async def serving(
        self, directory: Path, told: Told, register: Register
    ) -> AsyncGenerator[ServedResource, None]:
        socket = directory / "kubelet.sock"
        socket.touch()
        resource = ServedResource(
            a_service(),
            KubeletSocket(str(socket)),
            str(directory / "nvidia-gpu.sock"),
            register,
            tell=told.append,
        )
        resource.start()
        try:
            yield resource
        finally:
            await resource.stop()

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (KubeletUnreachable("nobody listens"), Outcome.FAILED),
            (RegistrationRefused("unsupported version"), Outcome.REFUSED),
            (OSError(13, "Permission denied"), Outcome.FAILED),
            (ZeroDivisionError(), Outcome.FAILED),
        ],
    )
    def test_each_attempt_is_told(self, told, tmp_path, error, outcome):
        errors = [error, error]

        async def register(*_: str) -> None:
            if errors:
                raise errors.pop()

        async def work():
            async with self.serving(tmp_path, told, register):
                await until(lambda: len(told) == 3)

        run(work())
        assert told == [Registered(GPU, outcome)] * 2 + [Registered(GPU, Outcome.OK)]

    def test_without_a_kubelet_there_is_none(self, told, tmp_path):
        async def work():
            path = str(tmp_path / "nvidia-gpu.sock")
            resource = ServedResource(a_service(), KubeletSocket(""), path, tell=told.append)
            resource.start()
            await until(lambda: os.path.exists(path))
            await resource.stop()

        run(work())
        assert told == []


def xid(gpu: int, number: int = 79) -> HealthEvent:
    return HealthEvent(HealthKind.XID, f"GPU-{gpu}", number, reason=f"XID {number}")


def apply(told: Told, board: DeviceBoard, event: HealthEvent, **environ: str) -> None:
    apply_event(event, HealthPolicy.of(environ), [board], 0, told.append)


class TestHealth:
    @pytest.fixture
    def board(self) -> DeviceBoard:
        return DeviceBoard(two_gpus())

    def test_an_xid_that_counts(self, told, board):
        apply(told, board, xid(0))
        (changed,) = told.of(HealthChanged)
        assert changed == HealthChanged(
            Turn.UNHEALTHY,
            "GPU-0",
            "XID 79",
            "XID 79 (GPU has fallen off the bus)",
            xid=79,
            devices=((GPU, "GPU-0"),),
        )

    def test_one_more_on_the_same_gpu_changes_no_device(self, told, board):
        apply(told, board, xid(0))
        apply(told, board, xid(0, 48))
        assert [each.devices for each in told.of(HealthChanged)] == [((GPU, "GPU-0"),), ()]
        assert [each.xid for each in told.of(HealthChanged)] == [79, 48]

    @pytest.mark.parametrize(
        "event", [xid(0, 13), xid(7)], ids=["by an application", "of a GPU that is not offered"]
    )
    def test_an_xid_that_does_not_count(self, told, board, event):
        apply(told, board, event)
        (changed,) = told.of(HealthChanged)
        assert (changed.turn, changed.devices) == (Turn.IGNORED, ())

    @pytest.mark.parametrize("kind", [HealthKind.MONITOR_NOT_STARTED, HealthKind.MONITOR_LOST])
    def test_a_monitor_that_fails_is_about_every_gpu(self, told, board, kind):
        apply(told, board, HealthEvent(kind, reason="not watched: no driver"))
        (changed,) = told.of(HealthChanged)
        assert (changed.turn, changed.gpu_uuid, changed.xid) == (Turn.UNHEALTHY, "", None)
        assert changed.devices == ((GPU, "GPU-0"), (GPU, "GPU-1"))

    def test_a_monitor_that_starts_is_told_if_devices_change_by_it(self, told, board):
        apply(told, board, READY)
        assert told == []
        apply(told, board, HealthEvent(HealthKind.MONITOR_NOT_STARTED, reason="no driver"))
        told.clear()
        apply(told, board, READY)
        assert told == [
            HealthChanged(Turn.HEALTHY, "", "watched", devices=((GPU, "GPU-0"), (GPU, "GPU-1")))
        ]

    def test_a_gpu_that_is_watched_at_last_is_told(self, told, board):
        apply(told, board, HealthEvent(HealthKind.UNMONITORABLE, "GPU-1", reason="cannot be"))
        told.clear()
        apply(told, board, HealthEvent(HealthKind.MONITORABLE, "GPU-0"))
        assert told == []
        apply(told, board, HealthEvent(HealthKind.MONITORABLE, "GPU-1"))
        assert told == [HealthChanged(Turn.HEALTHY, "GPU-1", "watched", devices=((GPU, "GPU-1"),))]

    def test_a_lost_gpu_is_told_once_and_so_is_its_return(self, told, board):
        watch = HealthWatch(tell=told.append)
        watch.show_on([board], HealthPolicy())

        def look(lost: str) -> None:
            gpu: Gpu = a_gpu(0, lost=lost)
            watch.show_lost([gpu, a_gpu(1)])

        look("GPU is lost")
        look("GPU is lost")
        assert told == [
            HealthChanged(
                Turn.UNHEALTHY,
                "GPU-0",
                "GPU is lost",
                "GPU is lost",
                is_lost=True,
                devices=((GPU, "GPU-0"),),
            )
        ]
        told.clear()
        look("")
        look("")
        assert told == [
            HealthChanged(
                Turn.HEALTHY, "GPU-0", "found again", is_lost=True, devices=((GPU, "GPU-0"),)
            )
        ]

    def test_a_gpu_of_which_more_is_offered_now_is_lost_anew(self, told, board):
        watch = HealthWatch(tell=told.append)
        watch.show_on([board], HealthPolicy())
        watch.show_lost([a_gpu(0, lost="GPU is lost")])
        other = DeviceBoard(Resource("nvidia.com/other", (Device("X", "0", gpu_uuid="GPU-0"),)))
        watch.show_on([board, other], HealthPolicy())
        watch.show_lost([a_gpu(0, lost="GPU is lost")])
        assert [each.devices for each in told.of(HealthChanged)] == [
            ((GPU, "GPU-0"),),
            (("nvidia.com/other", "X"),),
        ]

    def test_a_recovery_is_told_once(self, told, board):
        backend = ToldBackend(a_node(2))
        recovery = Recovery(backend, a_node(2), lambda: [board], lambda: 1000.0, told.append)
        board.mark_unhealthy(
            board.resource.devices[:1], Ailment("XID 69", Severity.RECOVERABLE, 0, 0, heard=0)
        )
        backend.problems["GPU-0"] = "wants a reset"
        run(recovery.look(60))
        assert told == []
        backend.problems.clear()
        run(recovery.look(60))
        run(recovery.look(60))
        assert told == [
            HealthChanged(Turn.HEALTHY, "GPU-0", "recovered", devices=((GPU, "GPU-0"),))
        ]


class Plugin:
    """A supervisor on two GPUs, whose configuration may be wrong from the first reload on."""

    def __init__(self, directory: Path, told: Told, problems: Sequence[UserError] = ()) -> None:
        self._problems = list[UserError | None]([None, *problems])
        self.backend = ToldBackend(a_node(2))
        self.directory = directory
        reader = NodeReader(self._load, lambda _: self.backend, CdiSettings())
        self.supervisor = Supervisor(
            reader,
            KubeletSocket(str(directory / "kubelet.sock")),
            environ={},
            socket_directory=str(directory),
            tell=told.append,
        )

    def _load(self) -> Loaded:
        problem = self._problems.pop(0) if self._problems else None
        if problem is not None:
            raise problem
        return Loaded(a_config())

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[SimulatedKubelet, None]:
        async with SimulatedKubelet(str(self.directory)) as kubelet:
            task = asyncio.create_task(self.supervisor.run())
            try:
                await kubelet.until(allocatable(2), "two GPUs")
                yield kubelet
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                await task


class TestReloads:
    @staticmethod
    def during(plugin: Plugin, told: Told, *, streams: int) -> list[Reloaded]:
        """What is told of a reload after which the kubelet has opened so many streams."""

        async def work():
            async with plugin.running():
                assert told.of(Reloaded) == [], "the start is none"
                os.kill(os.getpid(), signal.SIGHUP)
                await until(lambda: bool(told.of(Reloaded)))
                await until(lambda: len(told.of(StreamOpened)) >= streams)

        run(work())
        assert len(told.of(StreamOpened)) == streams
        return told.of(Reloaded)

    def test_one_that_succeeds(self, told, tmp_path):
        plugin = Plugin(tmp_path, told)
        assert self.during(plugin, told, streams=2) == [Reloaded(Outcome.OK)]
        assert plugin.supervisor.observe().last_reload is not None

    def test_one_whose_configuration_is_wrong(self, told, tmp_path):
        plugin = Plugin(tmp_path, told, [ConfigError("line 3: it is wrong")])
        reloads = self.during(plugin, told, streams=1)
        assert reloads == [Reloaded(Outcome.FAILED, "line 3: it is wrong")]

    def test_one_that_a_full_disk_keeps_is_made_once_there_is_space(
        self, told, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(companions_module, "PLACE_RETRY_SECONDS", 0.01)
        answers = [False, True]
        full = UnwritableError("the disk is full", "free some space", lambda: answers.pop(0))

        async def work():
            async with Plugin(tmp_path, told, [full]).running():
                os.kill(os.getpid(), signal.SIGHUP)
                await until(lambda: len(told.of(Reloaded)) == 2)

        run(work())
        assert told.of(Reloaded) == [
            Reloaded(Outcome.FAILED, str(full), is_passing=True),
            Reloaded(Outcome.OK),
        ]
        assert answers == []

    def test_a_kubelet_that_starts_anew_is_one(self, told, tmp_path):
        async def work():
            async with Plugin(tmp_path, told).running() as kubelet:
                before = len(told.of(Registered))
                await kubelet.restart()
                await kubelet.until(allocatable(2), "two GPUs")
                await until(lambda: len(told.of(Registered)) == before + 1)
                await until(lambda: len(told.of(ListSent)) >= 2)
                assert told.of(Reloaded) == [Reloaded(Outcome.OK)]
                assert len(told.of(StreamOpened)) == 2

        run(work())
