"""What goes on beside serving outlasts a moment in which the system refuses something."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from support.aio import run, within
from support.backends import ToldBackend
from support.inventories import a_node
from unit.agent.agent_parts import node_of

from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.plugin import companions as module
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.companions import Companions
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.resources.health import HealthPolicy
from gpu_device_plugin.resources.model import Resource


class ShortOfFiles(ToldBackend):
    """Cannot open anything the first time."""

    def __init__(self, inventory: Inventory) -> None:
        super().__init__(inventory)
        self.refusals = 1

    def refuse(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(24, "Too many open files")

    def read(self) -> Inventory:
        self.refuse()
        return super().read()

    def read_links(self, inventory, stopped):
        self.refuse()
        return super().read_links(inventory, stopped)


def begin(companions: Companions, node: Node, *boards: DeviceBoard) -> LinkedGpus:
    preference = LinkedGpus(node.gpus)
    companions.start(node, boards, preference, HealthPolicy())
    return preference


def never() -> bool:
    """What is never over."""
    return False


def waiting() -> int:
    """How many tasks wait for a place."""
    return sum(task.get_name() == "place" for task in asyncio.all_tasks())


def test_a_rescan_that_fails_is_followed_by_another(caplog: pytest.LogCaptureFixture) -> None:
    now = a_node(1)

    async def work() -> Inventory:
        found = asyncio.get_running_loop().create_future()
        companions = Companions(lambda: None, found.set_result, 0.001)
        begin(companions, replace(node_of(), backend=ShortOfFiles(now)))
        try:
            inventory: Inventory = await within(10, found)
        finally:
            await companions.stop()
            await companions.health.stop()
        return inventory

    assert now.gpus[0] in run(work()).gpus
    assert caplog.text.count("the hardware cannot be read anew: [Errno 24] Too many open") == 1
    assert "Traceback" not in caplog.text


def test_a_driver_is_waited_for_though_it_cannot_be_asked_for_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "INIT_RETRY_SECONDS", 0.001)

    async def work() -> None:
        can_be_used = asyncio.Event()
        companions = Companions(can_be_used.set, lambda _: None, 0)
        node = node_of(problem="no driver")
        begin(companions, replace(node, backend=ShortOfFiles(a_node(1))))
        try:
            await within(10, can_be_used.wait())
        finally:
            await companions.stop()

    run(work())
    assert "Traceback" not in caplog.text


def test_files_that_can_be_written_again_are_a_reason_to_read_all_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "PLACE_RETRY_SECONDS", 0.001)
    caplog.set_level(logging.INFO)

    async def work() -> int:
        asked = asyncio.Event()
        answers: list[OSError | bool] = [OSError(11, "no thread"), False, True]
        looks = former_looks = 0

        def former_is_over() -> bool:
            nonlocal former_looks
            former_looks += 1
            return False

        def is_over() -> bool:
            nonlocal looks
            looks += 1
            answer = answers.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return answer

        companions = Companions(asked.set, lambda _: None, 0)
        companions.await_place(former_is_over)
        companions.await_place(is_over)
        try:
            await within(10, asked.wait())
        finally:
            await companions.stop()
        assert former_looks == 0, "the newest place only is waited for"
        return looks

    assert run(work()) == 3
    assert caplog.text.count("files that could not be written can be written now") == 1


def test_the_wait_for_a_place_grows_with_looks_and_not_with_reloads_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PLACE_RETRY_SECONDS", 0.001)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        looked = asyncio.Event()
        companions = Companions(lambda: None, lambda _: None, 0)

        def is_over() -> bool:
            pauses.append(companions._place_pause)
            if len(pauses) == 4:
                loop.call_soon_threadsafe(looked.set)
            return False

        pauses = [companions._place_pause]
        companions.await_place(is_over)
        await within(10, looked.wait())
        companions.await_place(never)
        assert pauses == sorted(set(pauses)), "longer with each look"
        assert pauses[-1] > 4 * pauses[0]
        pause = companions._place_pause
        for _ in range(5):
            companions.await_place(never)
        assert companions._place_pause == pause
        companions.await_place(None)
        assert companions._place_pause < pauses[1], "from the start after a success"
        await companions.stop()

    run(work())


def test_a_reload_that_waits_for_a_place_does_so_with_the_next_node_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PLACE_RETRY_SECONDS", 0.001)

    async def work() -> None:
        asked = asyncio.Event()
        companions = Companions(asked.set, lambda _: None, 0)
        has_space = False
        companions.await_place(lambda: has_space)
        await companions.stop()
        assert waiting() == 0
        # What the node itself waits for is beside it.
        begin(companions, replace(node_of(), problem_is_over=never))
        has_space = True
        try:
            await within(10, asked.wait())
            await companions.stop()
            companions.await_place(None)
            begin(companions, node_of())
            assert waiting() == 0, "it is superseded"
        finally:
            await companions.stop()
            await companions.health.stop()

    run(work())


def test_places_that_are_waited_for_one_after_the_other_leave_no_tasks() -> None:
    async def work() -> None:
        companions = Companions(lambda: None, lambda _: None, 0)
        for _ in range(100):
            companions.await_place(never)
            await asyncio.sleep(0)
        assert len(companions._tasks) == 1
        await companions.stop()

    run(work())


def test_a_node_that_nothing_is_offered_of_for_now_is_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PLACE_RETRY_SECONDS", 0.001)

    async def work() -> None:
        asked = asyncio.Event()
        companions = Companions(asked.set, lambda _: None, 0)
        begin(companions, replace(node_of(), problem_is_over=lambda: True))
        try:
            await within(10, asked.wait())
        finally:
            await companions.stop()
            await companions.health.stop()

    run(work())


def test_links_that_cannot_be_read_are_a_problem_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    node = replace(node_of(), backend=ShortOfFiles(a_node(2)))
    board = DeviceBoard(Resource("nvidia.com/gpu", ()))

    async def work() -> tuple[str, ...]:
        companions = Companions(lambda: None, lambda _: None, 0)
        preference = begin(companions, node, board)
        try:
            async with asyncio.timeout(10):
                while preference.links is None:  # noqa: ASYNC110 - there is no event for it
                    await asyncio.sleep(0.001)
        finally:
            await companions.stop()
            await companions.health.stop()
        return preference.links.problems

    assert run(work()) == ("[Errno 24] Too many open files",)
    assert "Traceback" not in caplog.text
