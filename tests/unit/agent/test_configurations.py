"""Which configuration is wanted, which is in force, and why they differ."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from support.aio import run, until
from support.configs import a_config
from support.inventories import a_node
from unit.agent.agent_parts import Choice, Told, node_of

from gpu_device_plugin.agent import configurations as module
from gpu_device_plugin.agent.configurations import Configurations
from gpu_device_plugin.config.files import ONCE_ONLY
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.errors import ConfigError, HardwareError
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.telemetry import Outcome, ProfileApplied
from gpu_device_plugin.watch.profiles import Profile


class Stage:
    """Configurations in a directory; contents that begin with ``bad`` cannot be used."""

    def __init__(self, directory: Path, wanted: str = "a", **choice: object) -> None:
        self.directory = directory
        self.write(a="text of a", b="text of b", bad="bad text")
        self.source = Choice(self.path(wanted))
        for name, value in choice.items():
            setattr(self.source, name, value)
        self.told = Told()
        self.loads: list[bytes] = []
        self.least_gpus = 0
        self.configurations = Configurations(
            self.source, self.load, self.check, clock=lambda: 12.0, tell=self.told
        )

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.directory / name).write_text(text)

    def load(self, profile: Profile, contents: bytes) -> Loaded:
        self.loads.append(contents)
        if contents.startswith(b"bad"):
            raise ConfigError(f"{profile.name} is bad")
        return Loaded(a_config())

    def check(self, loaded: Loaded, inventory: Inventory | None) -> None:
        del loaded
        if inventory is not None and len(inventory.gpus) < self.least_gpus:
            raise HardwareError("too few GPUs")

    async def begin(self) -> None:
        """Begins and applies what is wanted."""
        assert await self.configurations.begin()
        self.apply()

    def apply(self, gpus: int = 2) -> None:
        """Does what the plugin does when it takes a configuration."""
        loaded = self.configurations.load()
        self.configurations.taken(node_of(loaded, a_node(gpus)))

    async def look(self, wanted: str | None = None, *, anew: bool = False) -> bool:
        if wanted is not None:
            self.source.wanted = self.path(wanted)
        return await self.configurations.look(anew=anew)

    @property
    def outcomes(self) -> list[tuple[str, Outcome]]:
        return [
            (each.profile, each.outcome)
            for each in self.told.happenings
            if isinstance(each, ProfileApplied)
        ]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_what_is_wanted_is_loaded_once_and_in_force_when_it_was_taken(stage):
    async def work():
        assert await stage.configurations.begin()
        assert stage.configurations.profile == ""
        stage.apply()
        assert stage.configurations.profile == "a"
        assert not await stage.look()

    run(work())
    assert stage.loads == [b"text of a"]
    assert stage.outcomes == [("a", Outcome.OK)]


def test_another_choice_is_to_be_applied_once(stage):
    async def work():
        await stage.begin()
        assert await stage.look("b")
        assert not await stage.look(), "it is about to be applied"
        stage.apply()
        assert stage.configurations.profile == "b"
        assert not await stage.look()

    run(work())


def test_other_contents_are_another_configuration(stage):
    async def work():
        await stage.begin()
        stage.write(a="new text of a")
        assert await stage.look()

    run(work())


def test_a_choice_that_is_taken_back_before_it_was_applied_is_forgotten(stage):
    async def work():
        await stage.begin()
        kept = stage.configurations.load()
        assert await stage.look("b")
        assert not await stage.look("a")
        assert stage.configurations.load() is kept

    run(work())


def test_what_cannot_be_used_is_refused_once_and_the_last_good_one_stays(stage, caplog):
    async def work():
        await stage.begin()
        kept = stage.configurations.load()
        assert not await stage.look("bad")
        assert not await stage.look()
        assert stage.configurations.load() is kept
        assert stage.configurations.problem == "bad is bad"
        assert stage.configurations.problem_since == 12.0
        assert not await stage.look("a")
        assert stage.configurations.problem == ""

    with caplog.at_level(logging.INFO):
        run(work())
    assert stage.loads.count(b"bad text") == 1
    assert caplog.text.count("bad is bad; the last good configuration stays in force") == 1
    assert caplog.text.count("the problem with the configuration is over") == 1
    assert stage.outcomes == [("a", Outcome.OK), ("bad", Outcome.FAILED), ("a", Outcome.OK)]


def test_a_choice_that_is_none_keeps_the_last_good_one(stage):
    async def work():
        await stage.begin()
        stage.source.wanted = ConfigError("there is no such configuration")
        assert not await stage.configurations.look()
        assert stage.configurations.problem == "there is no such configuration"
        assert not await stage.look("bad")
        stage.source.wanted = ConfigError("there is no such configuration")
        assert not await stage.configurations.look()
        assert not await stage.look("bad"), "it is known to be bad"
        assert stage.configurations.problem == "bad is bad"
        assert stage.loads.count(b"bad text") == 1
        assert await stage.look("b")

    run(work())


def test_a_file_that_vanishes_keeps_the_last_good_one(stage):
    async def work():
        await stage.begin()
        (stage.directory / "a").unlink()
        assert not await stage.look()
        assert "cannot be read" in stage.configurations.problem

    run(work())


def test_a_pipe_is_refused_rather_than_waited_for(stage):
    async def work() -> None:
        await stage.begin()
        os.mkfifo(stage.path("pipe"))
        stage.source.wanted = stage.path("pipe")
        assert not await stage.configurations.look()
        assert ONCE_ONLY in stage.configurations.problem

        stage.source.wanted = stage.path("b")
        assert await stage.configurations.look()

    run(work())


def test_a_file_that_hangs_does_not_keep_the_loop(stage, monkeypatch):
    is_read, goes_on = threading.Event(), threading.Event()

    def hang(path: str, **_: object) -> bytes:
        is_read.set()
        assert goes_on.wait(10)
        return Path(path).read_bytes()

    async def work() -> None:
        await stage.begin()
        monkeypatch.setattr(module, "read_file", hang)
        looking = asyncio.create_task(stage.configurations.look())
        await until(is_read.is_set)
        goes_on.set()
        assert not await looking

    run(work())


def test_what_is_asked_for_anew_is_judged_anew(stage):
    async def work():
        await stage.begin()
        assert await stage.look(anew=True)
        stage.apply()
        assert not await stage.look("bad")
        assert not await stage.look(anew=True)

    run(work())
    assert stage.loads == [b"text of a", b"text of a", b"bad text", b"bad text"]


def test_what_does_not_fit_is_judged_anew_when_the_hardware_is_another(stage):
    async def work():
        await stage.begin()
        stage.least_gpus = 3
        assert not await stage.look("b")
        assert stage.configurations.problem == "too few GPUs"
        stage.configurations.taken(node_of(stage.configurations.load(), a_node(2)))
        assert not await stage.look()
        stage.configurations.taken(node_of(stage.configurations.load(), a_node(4)))
        assert await stage.look()

    run(work())


def test_what_fails_when_it_is_applied_is_refused(stage):
    async def work():
        await stage.begin()
        kept = stage.configurations.load()
        assert await stage.look("b")
        stage.configurations.load()
        stage.configurations.failed("a disk is full")
        assert stage.configurations.problem == "a disk is full"
        assert stage.configurations.load() is kept
        assert not await stage.look()
        assert stage.configurations.profile == "a"

    run(work())
    assert stage.outcomes == [("a", Outcome.OK), ("b", Outcome.FAILED)]


def test_what_fails_by_something_that_passes_is_given_out_again(stage, caplog):
    async def work():
        await stage.begin()
        assert await stage.look("b")
        wanted = stage.configurations.load()
        stage.configurations.failed("a disk is full", is_passing=True)
        assert stage.configurations.problem == "a disk is full"
        assert not await stage.look(), "it is tried again by whoever has it"
        assert stage.configurations.profile == "a"
        assert stage.configurations.load() is wanted
        stage.apply()
        assert not await stage.look()
        assert stage.configurations.profile == "b"
        assert stage.configurations.problem == ""

    with caplog.at_level(logging.INFO):
        run(work())
    assert caplog.text.count("a disk is full; the former one stays in force until that has") == 1
    assert stage.loads.count(b"text of b") == 1


def test_a_reload_that_waits_is_a_problem_until_the_node_lacks_nothing(stage):
    async def work():
        await stage.begin()
        stage.apply()
        whole = node_of(stage.configurations.load())
        stage.configurations.failed("a disk is full", is_passing=True)
        stage.configurations.taken(replace(whole, problem_is_over=lambda: False))
        assert stage.configurations.problem == "a disk is full"
        stage.configurations.taken(whole)
        assert stage.configurations.problem == ""

    run(work())


def test_what_fails_though_something_else_is_wanted_meanwhile_is_no_problem(stage):
    async def work():
        await stage.begin()
        assert await stage.look("b")
        stage.configurations.load()
        stage.write(c="text of c")
        assert await stage.look("c")
        stage.configurations.failed("a disk is full")
        assert stage.configurations.problem == ""
        stage.apply()
        assert stage.configurations.profile == "c"

    run(work())


def test_what_is_in_force_may_fail_until_it_is_taken_again(stage):
    """After a restart of the kubelet, say."""

    async def work():
        await stage.begin()
        loaded = stage.configurations.load()
        stage.configurations.failed("the hardware has changed")
        assert stage.configurations.problem == "the hardware has changed"
        assert not await stage.look()
        assert stage.configurations.problem == "the hardware has changed"
        stage.configurations.taken(node_of(loaded))
        assert stage.configurations.problem == ""

    run(work())


def test_a_node_that_goes_on_with_an_old_configuration_is_no_success_of_the_new_one(stage):
    async def work():
        await stage.begin()
        kept = stage.configurations.load()
        assert await stage.look("b")
        stage.configurations.load()
        stage.configurations.taken(node_of(kept, a_node(3)))
        assert stage.configurations.profile == "a"

    run(work())


class TestBegin:
    def test_a_choice_that_cannot_be_used_is_substituted(self, tmp_path, caplog):
        stage = Stage(tmp_path, "bad")
        stage.source.other = stage.path("b")

        async def work():
            await stage.begin()
            assert stage.configurations.profile == "b"
            assert stage.configurations.problem == "bad is bad"
            assert not await stage.look(), "it is known to be bad"
            assert await stage.look("a")
            stage.apply()
            assert not await stage.look()
            assert stage.configurations.problem == ""

        run(work())
        assert "bad is bad; what applies to a node without label is used" in caplog.text
        assert stage.outcomes == [("", Outcome.FAILED), ("a", Outcome.OK)]

    def test_a_look_before_the_substitute_is_taken_does_not_lose_it(self, tmp_path):
        stage = Stage(tmp_path, "bad")
        stage.source.other = stage.path("b")

        async def work():
            assert await stage.configurations.begin()
            assert not await stage.look()
            stage.apply()
            assert stage.configurations.profile == "b"

        run(work())

    def test_nothing_is_found_until_something_changes(self, tmp_path, caplog):
        stage = Stage(tmp_path, "bad")

        async def work():
            assert not await stage.configurations.begin()
            assert not await stage.configurations.begin()
            with pytest.raises(LookupError):
                stage.configurations.load()
            stage.write(bad="good text")
            await stage.begin()
            assert stage.configurations.problem == ""

        run(work())
        assert caplog.text.count("bad is bad; nothing is offered") == 1

    def test_a_single_file_that_cannot_be_used_is_an_error(self, tmp_path):
        stage = Stage(tmp_path, "bad", has_others=False)
        with pytest.raises(ConfigError, match="bad is bad"):
            run(stage.configurations.begin())

    def test_no_file_is_an_empty_configuration(self, tmp_path):
        stage = Stage(tmp_path)
        stage.source.wanted = ""

        async def work():
            await stage.begin()
            assert not await stage.configurations.look()

        run(work())
        assert stage.loads == [b""]
