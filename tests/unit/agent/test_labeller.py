"""Labels of the node that is served: when they are made, and what keeps them from being out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from support.aio import run, until
from support.configs import time_sliced
from support.inventories import a_node
from support.labels import gfd_config
from unit.agent.agent_parts import Place, Told, node_of

from gpu_device_plugin.agent import labeller as module
from gpu_device_plugin.agent.labeller import Labeller, NodeReading
from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import GfdFlags
from gpu_device_plugin.errors import ConfigError, InitError, UserError
from gpu_device_plugin.hardware.described import DescribedInventory
from gpu_device_plugin.hardware.node_facts import NodeFacts, NodeSource
from gpu_device_plugin.kube.errors import ApiError
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.output import OutputError
from gpu_device_plugin.labels.work import Work
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.telemetry import Labelled, Outcome


class Stage:
    """A labeller and all around it; passes follow each other when the test says so."""

    def __init__(self) -> None:
        self.places = [Place()]
        self.problems: list[Exception] = []
        self.told = Told()
        self.now = 100.4
        self.pauses: list[float | None] = []
        self.due = asyncio.Event()
        self.labeller = Labeller(
            self.set_up, clock=lambda: self.now, wait=self.wait, tell=self.told
        )

    def set_up(self, loaded: Loaded, source: NodeSource) -> Work:
        if self.problems:
            raise self.problems.pop(0)
        reader = FactReader(source, "", tolerates_no_driver=True, sysfs="/nowhere")
        return Work(loaded.config, reader, self.places[-1], loaded.origins)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Until something is new, or `due` is set."""
        self.pauses.append(seconds)
        await until(lambda: event.is_set() or self.due.is_set())
        self.due.clear()
        return event.is_set()

    async def again(self) -> None:
        """Lets one more pass go by."""
        count = len(self.pauses)
        self.due.set()
        await until(lambda: len(self.pauses) > count)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.labeller.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.labeller.end()

    @property
    def outcomes(self) -> list[Outcome]:
        return [each.outcome for each in self.told.happenings if isinstance(each, Labelled)]


def a_node_that_is(shared: int = 0, gpus: int = 2, *, gfd: GfdFlags | None = None) -> Node:
    """A node whose GPUs are shared among so many, or not at all."""
    sharing = time_sliced(shared) if shared else None
    return node_of(Loaded(gfd_config(sharing=sharing, gfd=gfd)), a_node(gpus))


def test_the_labels_are_out_when_the_node_was_taken():
    async def work():
        stage = Stage()
        async with stage.running():
            await stage.labeller.take(a_node_that_is(shared=4))
            assert stage.places[0].last("gpu.replicas") == "4"
            assert stage.labeller.state.place == "a place"
            assert dict(stage.labeller.state.labels)["nvidia.com/gpu.count"] == "2"
            assert stage.labeller.state.time == stage.now
        assert stage.places[0].events == ["withdrawn", "closed"]

    run(work())


def test_nothing_is_done_before_there_is_a_node():
    async def work():
        stage = Stage()
        async with stage.running():
            await until(lambda: stage.pauses == [None])
            assert stage.places[0].got == []
        assert stage.places[0].events == []

    run(work())


def test_the_time_is_that_of_the_configuration_and_not_of_the_reading():
    async def work():
        stage = Stage()
        async with stage.running():
            node = a_node_that_is()
            await stage.labeller.take(node)
            assert stage.places[0].last("gfd.timestamp") == "100"
            stage.now = 200
            await stage.labeller.take(replace(node, inventory=a_node(3)))
            assert stage.places[0].last("gfd.timestamp") == "100"
            assert stage.places[0].last("gpu.count") == "3"
            await stage.labeller.take(a_node_that_is())
            assert stage.places[0].last("gfd.timestamp") == "200"

    run(work())


def test_labels_are_published_again_without_being_made_again(monkeypatch):
    async def work():
        stage = Stage()
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            monkeypatch.setattr(module, "make_labels", lambda *_: 1 / 0)
            await stage.again()
            assert len(stage.places[0].got) == 2
            assert stage.pauses == [None, 1.0, 1.0][-len(stage.pauses) :]

    run(work())


def test_an_endless_interval_is_no_interval():
    async def work():
        stage = Stage()
        flags = GfdFlags(False, True, INFINITE, "", "")
        async with stage.running():
            await stage.labeller.take(a_node_that_is(gfd=flags))
            await until(lambda: stage.pauses[-1] is None)
            assert stage.places[0].last("gfd.timestamp") is None

    run(work())


@pytest.mark.parametrize(
    "error",
    [
        OutputError("read-only file system"),
        ApiError("PUT /x", 403, "Forbidden", "not allowed"),
    ],
)
def test_what_cannot_be_published_is_tried_again_and_holds_nobody_up(error, monkeypatch, caplog):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)

    async def work():
        stage = Stage()
        stage.places[0].failures = [error, error]
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            assert stage.places[0].got == []
            assert stage.labeller.problem == str(error)
            assert stage.labeller.state.problem == str(error)
            await stage.again()
            await stage.again()
            assert stage.places[0].got
            assert stage.labeller.problem == ""
            assert stage.outcomes == [Outcome.FAILED, Outcome.FAILED, Outcome.OK]

    with caplog.at_level(logging.INFO):
        run(work())
    assert caplog.text.count(f"{error}; trying again") == 1
    assert caplog.text.count("the labels are out again") == 1


def test_the_api_says_how_long_to_wait(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)

    async def work():
        stage = Stage()
        stage.places[0].failures = [ApiError("PUT /x", 429, retry_after=77)]
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            pause = stage.pauses[-1]
            assert pause is not None
            assert pause >= 77

    run(work())


def test_an_error_of_the_program_is_told_and_tried_again(monkeypatch, caplog):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)

    async def work():
        stage = Stage()
        stage.places[0].failures = [KeyError("x")]
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            assert stage.labeller.problem == "KeyError: 'x'"
            await stage.again()
            assert stage.places[0].got

    run(work())
    assert "Traceback" in caplog.text


def test_a_place_that_cannot_be_opened_is_tried_again(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)

    async def work():
        stage = Stage()
        stage.problems = [ConfigError("no such kubeconfig")]
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            assert stage.labeller.state.problem == "no such kubeconfig"
            await stage.again()
            assert stage.places[0].got

    run(work())


def test_the_former_place_is_cleared_when_the_new_one_has_the_labels(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.05)

    async def work():
        stage = Stage()
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            stage.places.append(Place("another place", failures=[UserError("full")]))
            await stage.labeller.take(a_node_that_is(shared=2))
            assert stage.places[0].events == ["closed"]
            await stage.again()
            assert stage.places[0].events == ["closed", "withdrawn"]
            assert stage.places[1].last("gpu.replicas") == "2"
        assert stage.places[0].events == ["closed", "withdrawn"]
        assert stage.places[1].events == ["withdrawn", "closed"]

    run(work())


def test_the_same_place_is_not_cleared():
    async def work():
        stage = Stage()
        async with stage.running():
            await stage.labeller.take(a_node_that_is())
            await stage.labeller.take(a_node_that_is(shared=2))
            assert stage.places[0].events == ["closed"]
            assert stage.places[0].last("gpu.replicas") == "2"

    run(work())


def test_a_node_without_driver_is_labelled_with_what_there_is():
    async def work():
        stage = Stage()
        async with stage.running():
            await stage.labeller.take(node_of(Loaded(gfd_config()), problem="no driver"))
            assert stage.places[0].last("gfd.timestamp") == "100"
            assert stage.places[0].last("gpu.count") is None
            assert stage.outcomes == [Outcome.REFUSED]

    run(work())


def test_labels_that_cannot_be_made_are_told_with_the_state():
    async def work():
        stage = Stage()
        inventory = DescribedInventory.of(a_node(1), NodeFacts(a_node(1), failures=("a lack",)))
        async with stage.running():
            await stage.labeller.take(node_of(Loaded(gfd_config()), inventory))
            assert "a lack" in stage.labeller.state.problem
            assert stage.labeller.problem == ""
            assert stage.outcomes == [Outcome.FAILED]

    run(work())


def test_a_reading_is_a_source_of_facts():
    node = node_of(inventory=a_node(3))
    assert NodeReading(node).name == "told"
    assert NodeReading(node).read().inventory == a_node(3)
    with pytest.raises(InitError, match="no driver"):
        NodeReading(node_of(problem="no driver")).read()
