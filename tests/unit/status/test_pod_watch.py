"""The kubelet asked again and again: what is known meanwhile, and what is logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from support.aio import run, until

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet.podresources import ContainerDevices, PodResourcesClient
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.status.model import Holder, Pods
from gpu_device_plugin.status.pod_watch import PodWatcher
from gpu_device_plugin.telemetry import Answered, Call, ListSent, Outcome

GPU = "nvidia.com/gpu"
HELD = ContainerDevices("ml", "train", "main", {GPU: ("GPU-0",)})
NEVER = 1e6


class Source:
    """Tells what it is told to tell, or raises it."""

    def __init__(self, *answers: Sequence[ContainerDevices] | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.closed = False
        self._news = asyncio.Event()

    async def list(self) -> Sequence[ContainerDevices]:
        self.asked += 1
        self._news.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True

    async def until_asked(self, times: int) -> None:
        while self.asked < times:
            self._news.clear()
            await self._news.wait()
        await asyncio.sleep(0)


@asynccontextmanager
async def watching(source: Source, interval: float = NEVER) -> AsyncIterator[PodWatcher]:
    watcher = PodWatcher(source, interval=interval, settle=0, clock=lambda: 7.0)
    task = asyncio.create_task(watcher.run())
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert source.closed


def test_nothing_is_known_before_the_first_answer():
    watcher = PodWatcher(Source([]))

    assert watcher.pods() == (Pods(asked=True), None)


def test_the_last_answer_is_known_with_its_time():
    async def work():
        source = Source([HELD])
        async with watching(source) as watcher:
            await source.until_asked(1)
            assert watcher.pods() == (
                Pods(asked=True, time=7.0),
                {(GPU, "GPU-0"): [Holder("ml", "train", "main")]},
            )

    run(work())


def test_it_is_asked_again_after_the_interval():
    async def work():
        source = Source([])
        async with watching(source, interval=0.001):
            await source.until_asked(5)

    run(work())


def test_an_allocation_is_followed_by_a_question():
    async def work():
        source = Source([], [HELD])
        async with watching(source) as watcher:
            await source.until_asked(1)
            assert watcher.pods()[1] == {}
            watcher.hear(Answered(Call.ALLOCATE, GPU, 0.001, Outcome.OK))
            watcher.hear(Answered(Call.ALLOCATE, GPU, 0.001, Outcome.OK))
            await source.until_asked(2)
            assert watcher.pods()[1] == {(GPU, "GPU-0"): [Holder("ml", "train", "main")]}

    run(work())


def test_nothing_else_that_happens_is_followed_by_a_question():
    watcher = PodWatcher(Source([]))

    watcher.hear(Answered(Call.ALLOCATE, GPU, 0.001, Outcome.REFUSED))
    watcher.hear(Answered(Call.PREFER, GPU, 0.001, Outcome.OK))
    watcher.hear(ListSent(GPU))

    assert not watcher._soon.is_set()


def test_a_kubelet_that_is_away_leaves_what_was_known_with_the_reason():
    async def work():
        source = Source([HELD], UserError("it is away"), [])
        watcher = PodWatcher(source, clock=lambda: 7.0)
        await watcher.ask()
        await watcher.ask()
        pods, holders = watcher.pods()
        assert pods == Pods(asked=True, problem="it is away", time=7.0)
        assert holders == {(GPU, "GPU-0"): [Holder("ml", "train", "main")]}
        await watcher.ask()
        assert watcher.pods() == (Pods(asked=True, time=7.0), {})

    run(work())


def test_a_short_absence_is_not_logged(caplog):
    async def work():
        watcher = PodWatcher(Source(UserError("it is away"), []))
        await watcher.ask()
        await watcher.ask()

    caplog.set_level(logging.INFO)
    run(work())

    assert not caplog.messages


def test_a_long_absence_is_logged_once_and_so_is_its_end(caplog):
    async def work():
        away = UserError("it is away")
        watcher = PodWatcher(Source(away, away, away, []))
        for _ in range(5):
            await watcher.ask()

    caplog.set_level(logging.INFO)
    run(work())

    assert caplog.messages == [
        "it is not known which pods hold which devices: it is away",
        "the kubelet tells again which pods hold which devices",
    ]


def test_two_who_ask_at_once_do_not_ask_the_kubelet_at_once():
    class Slow(Source):
        def __init__(self) -> None:
            super().__init__([])
            self.running = 0

        async def list(self) -> Sequence[ContainerDevices]:
            self.running += 1
            assert self.running == 1
            await asyncio.sleep(0)
            self.running -= 1
            return await super().list()

    async def work():
        source = Slow()
        watcher = PodWatcher(source)
        await asyncio.gather(watcher.ask(), watcher.ask())
        assert source.asked == 2

    run(work())


def test_a_kubelet_is_asked_as_long_as_somebody_wants_to_know(tmp_path):
    async def work():
        socket = str(tmp_path / "pods.sock")
        (tmp_path / "plugins").mkdir()
        watcher = PodWatcher(PodResourcesClient(socket), interval=0.01)
        async with (
            SimulatedKubelet(str(tmp_path / "plugins"), pod_resources_socket=socket) as kubelet,
            watcher.running(),
        ):
            await until(lambda: watcher.pods()[1] == {})
            await kubelet.stop()
            await until(lambda: "does not exist" in watcher.pods()[0].problem)
            await kubelet.start()
            await until(lambda: not watcher.pods()[0].problem)

    run(work())


def test_an_error_of_the_program_does_not_go_unnoticed(tmp_path, monkeypatch, caplog):
    async def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(PodWatcher, "ask", fail)

    async def work():
        told = "the kubelet is not asked any more which pods hold which devices"
        async with PodWatcher(PodResourcesClient(str(tmp_path / "none"))).running():
            await until(lambda: told in caplog.messages)

    run(work())
