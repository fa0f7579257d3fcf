"""Reloads that fail, for now or for good, and hardware that changes meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run, until
from support.backends import ToldBackend
from support.configs import a_config
from support.inventories import a_node
from support.serving import allocatable

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.errors import ConfigError, HardwareError, UnwritableError, UserError
from gpu_device_plugin.plugin import companions as companions_module
from gpu_device_plugin.plugin.cdi import cdi_injector
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.node import Node, NodeReader
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.telemetry import Happening, Outcome, Reloaded, StreamOpened

CHANGED = "the hardware has changed: adapting"


class Plugin:
    """A supervisor on two GPUs, with specifications on a disk that may be full."""

    def __init__(self, directory: Path, *, must_fit: bool = True) -> None:
        self.directory = directory
        self.backend = ToldBackend(a_node(2))
        self.problem: UserError | None = None
        """What is wrong with the configuration."""
        self.is_full = False
        self.faults: list[UserError] = []
        """Of the next attempts to describe the hardware."""
        self.may_load = threading.Event()
        self.may_load.set()
        self.loads = 0
        self.told: list[Happening] = []
        self.announced: list[Node] = []
        self.supervisor = Supervisor(
            NodeReader(self._load, lambda _: self.backend, CdiSettings()),
            KubeletSocket(str(directory / "kubelet.sock")),
            environ={},
            socket_directory=str(directory),
            tell=self.told.append,
            announce=self._announce,
            must_fit=must_fit,
        )

    @property
    def reloads(self) -> list[Reloaded]:
        return [each for each in self.told if isinstance(each, Reloaded)]

    @property
    def sizes(self) -> list[int]:
        """Of the nodes that were served, the GPUs that were offered."""
        return [sum(r.size for r in node.plan.resources) for node in self.announced]

    def full(self, message: str = "the disk is full") -> UnwritableError:
        return UnwritableError(message, "free some space", lambda: not self.is_full)

    def set_up_cdi(self, config, _settings, _inventory, _plan, channels):
        if self.faults:
            raise self.faults.pop(0)
        if self.is_full:
            raise self.full()
        return cdi_injector(config, channels)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[SimulatedKubelet, None]:
        stop = asyncio.Event()
        async with SimulatedKubelet(str(self.directory)) as kubelet:
            task = asyncio.create_task(self.supervisor.serve(stop))
            try:
                await kubelet.until(allocatable(2), "two GPUs")
                yield kubelet
            finally:
                self.may_load.set()
                stop.set()
                await task

    async def reloaded(self) -> None:
        """Returns when a reload has succeeded, and the kubelet listens to what is served since."""

        def has_begun() -> bool:
            since = self.told[self.told.index(Reloaded(Outcome.OK)) :]
            return any(isinstance(each, StreamOpened) for each in since)

        await until(lambda: Reloaded(Outcome.OK) in self.told)
        await until(has_begun)

    async def begin_reload(self) -> None:
        """Returns while the configuration is being read."""
        self.may_load.clear()
        before = self.loads
        self.supervisor.reload()
        await until(lambda: self.loads > before)

    async def change_to(self, gpus: int) -> None:
        """Returns when a rescan has noted changed hardware; nothing may be listening for it."""
        self.backend.inventory = a_node(gpus)
        self.supervisor.rescan()
        await until(lambda: self.supervisor._changed is not None)

    def _load(self) -> Loaded:
        self.loads += 1
        assert self.may_load.wait(10)
        if self.problem is not None:
            raise self.problem
        return Loaded(a_config(device_list_strategy=("cdi-cri",)))

    async def _announce(self, node: Node) -> None:
        self.announced.append(node)


MakePlugin = Callable[..., Plugin]


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> MakePlugin:
    monkeypatch.setattr(companions_module, "PLACE_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(companions_module, "LONGEST_PLACE_SECONDS", 0.02)
    caplog.set_level(logging.INFO)

    def make(*, must_fit: bool = True) -> Plugin:
        plugin = Plugin(tmp_path, must_fit=must_fit)
        monkeypatch.setattr("gpu_device_plugin.plugin.cdi.set_up_cdi", plugin.set_up_cdi)
        return plugin

    return make


@pytest.mark.parametrize("must_fit", [True, False])
def test_a_reload_that_waits_for_a_place_outlasts_hardware_that_changes(make, caplog, must_fit):
    plugin = make(must_fit=must_fit)

    async def work():
        async with plugin.running() as kubelet:
            plugin.is_full = True
            plugin.problem = plugin.full("the other configuration is too long")
            plugin.supervisor.reload()
            await until(lambda: len(plugin.reloads) == 1)
            plugin.backend.inventory = a_node(1)
            plugin.supervisor.rescan()
            await kubelet.until(allocatable(1), "what is still there")
            plugin.problem = None
            plugin.is_full = False
            await plugin.reloaded()

    run(work())
    assert plugin.reloads[0].is_passing
    assert plugin.reloads[1] == Reloaded(Outcome.OK)
    told = "too long (free some space); what was offered before is offered until that has passed"
    assert told in caplog.text
    assert "the last good configuration" not in caplog.text


def test_a_reload_that_waits_outlasts_hardware_that_is_adapted_to_without_a_fault(make):
    plugin = make()

    async def work():
        async with plugin.running() as kubelet:
            is_over = False
            plugin.problem = UnwritableError("full", "", lambda: is_over)
            plugin.supervisor.reload()
            await until(lambda: len(plugin.reloads) == 1)
            plugin.backend.inventory = a_node(3)
            plugin.supervisor.rescan()
            await kubelet.until(allocatable(3), "the new GPU")
            is_over, plugin.problem = True, None
            await plugin.reloaded()

    run(work())
    assert plugin.reloads[1] == Reloaded(Outcome.OK)


def test_hardware_that_changes_together_with_a_reload_in_vain_is_adapted_to(make):
    plugin = make()

    async def work():
        async with plugin.running() as kubelet:
            plugin.problem = ConfigError("line 3: it is wrong")
            await plugin.begin_reload()
            await plugin.change_to(3)
            plugin.supervisor.reload()  # is there together with the change at the next look
            plugin.may_load.set()
            await kubelet.until(allocatable(3), "the new GPU")
            await until(lambda: len(plugin.reloads) == 2)

    run(work())
    assert {each.outcome for each in plugin.reloads} == {Outcome.FAILED}


def test_hardware_that_was_seen_beside_a_reload_is_looked_at_again(make, caplog):
    """It may have been seen before the reload has read it, or after."""
    plugin = make()

    async def work():
        async with plugin.running() as kubelet:
            await plugin.begin_reload()
            await plugin.change_to(3)
            plugin.backend.inventory = a_node(4)
            plugin.may_load.set()
            await kubelet.until(allocatable(4), "four GPUs")
            plugin.backend.inventory = a_node(5)
            plugin.supervisor.rescan()
            await kubelet.until(allocatable(5), "five GPUs")

    run(work())
    assert plugin.sizes == [2, 4, 5]
    assert caplog.text.count(CHANGED) == 1


def test_what_lacks_for_want_of_space_is_back_though_the_configuration_is_wrong_by_then(
    make, caplog
):
    plugin = make()

    async def work():
        async with plugin.running() as kubelet:
            plugin.is_full = True
            plugin.backend.inventory = a_node(3)
            plugin.supervisor.rescan()
            await until(lambda: len(plugin.announced) == 2)
            plugin.problem = ConfigError("line 3: it is wrong")
            plugin.is_full = False
            await kubelet.until(allocatable(3), "the new GPU")

    run(work())
    assert plugin.sizes == [2, 2, 3]
    assert [each.error for each in plugin.reloads] == ["line 3: it is wrong"]
    assert caplog.text.count(CHANGED) == 1


@pytest.mark.parametrize("must_fit", [True, False])
def test_a_full_disk_withdraws_nothing_where_the_configuration_does_not_fit_either(
    make, caplog, must_fit
):
    plugin = make(must_fit=must_fit)

    async def work():
        async with plugin.running() as kubelet:
            plugin.is_full = True
            plugin.faults = [HardwareError("driver files are being replaced")]
            plugin.supervisor.reload()
            await until(lambda: len(plugin.reloads) == 1)
            assert plugin.sizes == [2], "nothing is served anew"
            await kubelet.until(allocatable(2), "two GPUs still")
            plugin.is_full = False
            await plugin.reloaded()

    run(work())
    assert plugin.reloads == [
        Reloaded(Outcome.FAILED, "driver files are being replaced"),
        Reloaded(Outcome.OK),
    ]
    assert "being replaced; the last good configuration stays in force" in caplog.text
    assert "space); what was offered before is offered until that has passed" in caplog.text
    assert "nothing is offered" not in caplog.text


def test_nothing_is_offered_where_not_even_the_former_configuration_fits_nor_has_to(make, caplog):
    plugin = make(must_fit=False)

    async def work():
        async with plugin.running() as kubelet:
            another = HardwareError("the GPUs are uneven")
            plugin.faults = [HardwareError("no such profile"), another, another]
            plugin.supervisor.reload()
            await kubelet.until(allocatable(0), "nothing")

    run(work())
    assert plugin.reloads == [Reloaded(Outcome.FAILED, "no such profile")]
    assert "nothing is offered until this is mended: the GPUs are uneven" in caplog.text
    assert "ERROR" in next(line for line in caplog.text.splitlines() if "no such profile" in line)
    assert "stays in force" not in caplog.text


def test_both_errors_are_told_where_not_even_the_former_configuration_fits(make, caplog):
    plugin = make()

    async def work():
        async with plugin.running():
            plugin.faults = [HardwareError("no such profile"), HardwareError("uneven")]
            plugin.supervisor.reload()
            await until(lambda: not plugin.faults)

    with pytest.raises(HardwareError, match="uneven"):
        run(work())
    assert caplog.text.count("no such profile") == 1


def test_a_configuration_that_is_wrong_supersedes_one_that_waits_for_a_place(make):
    plugin = make()

    async def work():
        async with plugin.running():
            looks = 0

            def is_over() -> bool:
                nonlocal looks
                looks += 1
                return False

            plugin.problem = UnwritableError("full", "", is_over)
            plugin.supervisor.reload()
            await until(lambda: looks > 0)
            plugin.problem = ConfigError("line 3: it is wrong")
            plugin.supervisor.reload()
            await until(lambda: len(plugin.reloads) == 2)
            await until(lambda: "place" not in {task.get_name() for task in asyncio.all_tasks()})

    run(work())
