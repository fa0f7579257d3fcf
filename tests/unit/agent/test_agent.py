"""The life of the agent where real processes do not get to."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.aio import run, until
from support.configs import a_config
from unit.agent.agent_parts import Choice, Place, node_of

from gpu_device_plugin.agent import agent as module
from gpu_device_plugin.agent.agent import Agent, Following
from gpu_device_plugin.agent.configurations import Configurations
from gpu_device_plugin.agent.labeller import Labeller
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.work import Work
from gpu_device_plugin.plugin.node import Node
from gpu_device_plugin.plugin.observation import Observation, Reload
from gpu_device_plugin.telemetry import HealthChanged, Outcome, Reloaded, Turn
from gpu_device_plugin.watch.node_label import NodeLabel


class ToldSupervisor:
    """Serves nothing, notes what it is asked for, and tells what it is told to."""

    def __init__(self, announce: Callable[[Node], Any], tell: Callable[[Any], None]) -> None:
        self.announce = announce
        self.tell = tell
        self.reloads = 0
        self.rescans = 0
        self.serving = asyncio.Event()
        self.node: Node | None = None
        self.last_reload: Reload | None = None

    def observe(self) -> Observation:
        return Observation(self.node, last_reload=self.last_reload)

    async def serve(self, stop: asyncio.Event) -> None:
        self.serving.set()
        await stop.wait()

    def reload(self) -> None:
        self.reloads += 1

    def rescan(self) -> None:
        self.rescans += 1


class Stage:
    """An agent whose plugin is told what to do."""

    def __init__(self, directory: Path, **parts: Any) -> None:
        (directory / "a").write_text("a")
        self.source = Choice(str(directory / "a"))
        self.configurations = Configurations(
            self.source, lambda *_: Loaded(a_config()), lambda *_: None
        )
        self.place = Place()
        self.supervisors: list[ToldSupervisor] = []
        self.agent = Agent(
            self.configurations,
            self.make_supervisor,  # type: ignore[arg-type]  # a stand-in
            labeller=Labeller(self.set_up),
            directory=str(directory),
            **parts,
        )

    def make_supervisor(
        self, announce: Callable[[Node], Any], tell: Callable[[Any], None]
    ) -> ToldSupervisor:
        self.supervisors.append(ToldSupervisor(announce, tell))
        return self.supervisors[-1]

    def set_up(self, loaded: Loaded, source: Any) -> Work:
        return Work(loaded.config, FactReader(source, "", sysfs="/nowhere"), self.place)

    @property
    def supervisor(self) -> ToldSupervisor:
        return self.supervisors[-1]

    async def serves(self) -> None:
        await self.supervisor.serving.wait()
        node = node_of(self.configurations.load())
        self.supervisor.node = node
        await self.supervisor.announce(node)


def end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_node_is_labelled_as_it_is_announced(tmp_path):
    async def work():
        stage = Stage(tmp_path)
        life = asyncio.create_task(stage.agent.run())
        await stage.serves()
        assert stage.place.last("gpu.count") == "2"
        assert stage.agent.profile() == "a"
        assert stage.agent.readiness().ok
        end()
        await life
        assert stage.place.events == ["withdrawn", "closed"]

    run(work())


def test_changes_of_health_are_reasons_to_read_the_hardware(tmp_path):
    async def work():
        stage = Stage(tmp_path)
        devices = (("nvidia.com/gpu", "GPU-0"),)
        stage.supervisor.tell(HealthChanged(Turn.IGNORED, "GPU-0", "XID 31"))
        assert stage.supervisor.rescans == 0
        stage.supervisor.tell(HealthChanged(Turn.UNHEALTHY, "GPU-0", "XID 79", devices=devices))
        stage.supervisor.tell(HealthChanged(Turn.HEALTHY, "GPU-0", "back", devices=devices))
        assert stage.supervisor.rescans == 2

    run(work())


def test_a_reload_that_failed_is_the_problem_until_it_is_over(tmp_path):
    async def work():
        stage = Stage(tmp_path)
        life = asyncio.create_task(stage.agent.run())
        await stage.serves()
        assert stage.agent.observe().last_reload is None
        stage.supervisor.last_reload = Reload(5.0, "a disk is full")
        stage.supervisor.tell(Reloaded(Outcome.FAILED, "a disk is full"))
        seen = stage.agent.observe().last_reload
        assert seen is not None
        assert seen.error == "a disk is full"
        assert stage.supervisor.node is not None
        await stage.supervisor.announce(stage.supervisor.node)
        assert stage.agent.observe().last_reload == Reload(5.0, "")
        end()
        await life

    run(work())


def test_a_signal_is_a_reload_whatever_has_changed(tmp_path):
    async def work():
        stage = Stage(tmp_path)
        life = asyncio.create_task(stage.agent.run())
        await stage.serves()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: stage.supervisor.reloads == 1)
        (tmp_path / "a").unlink()
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: stage.supervisor.reloads == 2)
        end()
        await life

    run(work())


def test_an_error_of_the_program_beside_the_devices_is_told_and_tried_again(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(module, "RESTART_SECONDS", 0.001)
    tries = list[int]()

    async def follow() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ZeroDivisionError

    async def work():
        label = NodeLabel("x", lambda: None)
        label.seen.set()
        stage = Stage(tmp_path, following=Following(label, follow))
        life = asyncio.create_task(stage.agent.run())
        await stage.serves()
        await until(lambda: len(tries) == 2)
        end()
        await life

    run(work())
    assert "the task label failed" in caplog.text


def test_without_labels_nothing_is_said_of_them(tmp_path):
    async def work():
        stage = Stage(tmp_path)
        agent = Agent(stage.configurations, stage.make_supervisor)  # type: ignore[arg-type]  # a stand-in
        assert agent.labelling() is None
        life = asyncio.create_task(agent.run())
        await stage.serves()
        assert agent.readiness().ok
        end()
        await life

    run(work())


def test_what_keeps_the_node_from_being_served_is_a_reason_not_to_be_ready(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)

    async def work():
        stage = Stage(tmp_path)
        (tmp_path / "a").unlink()
        life = asyncio.create_task(stage.agent.run())
        await until(lambda: not stage.agent.readiness().ok)
        assert "no configuration can be used" in stage.agent.readiness().reasons[0]
        seen = stage.agent.observe().last_reload
        assert seen is not None
        assert "cannot be read" in seen.error
        end()
        await life
        assert not stage.supervisor.serving.is_set()

    run(work())
