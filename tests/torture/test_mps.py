"""A hundred times somebody is killed with -9: the node is as it should be each time."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Self

import pytest
from support.aio import until
from support.mps import GPU, MpsTools
from support.programs import ProgramProcess, program
from support.serving import allocatable

from gpu_device_plugin.processes import command_lines
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

KILLS = int(os.environ.get("TORTURE_KILLS", "100"))
LIMIT = 60.0
"""Seconds until all is well again; a daemon that dies often is restarted ever more slowly."""
CONFIG = f"sharing: {{mps: {{resources: [{{name: {GPU}, replicas: 4}}]}}}}\n"


class Node:
    """A node with an MPS daemon, and a plugin that waits for it."""

    def __init__(self, directory: Path) -> None:
        self.replicas = 4
        self.kubelet_directory = directory / "kubelet"
        self.kubelet_directory.mkdir()
        self.tools = MpsTools.make(directory)
        self.config = directory / "config.yaml"
        self.config.write_text(CONFIG)
        self.before = f"program.MPS_ROOT = {str(self.tools.root)!r}"
        self.environ = {
            "PATH": f"{directory}:/usr/bin:/bin",
            "GPU_NODE_SIMULATE": "t4x4",
            "GPU_NODE_PLUGIN_DIR": str(self.kubelet_directory),
            "KUBELET_SOCKET": str(self.kubelet_directory / "kubelet.sock"),
        }

    def plugin_program(self) -> AbstractAsyncContextManager[ProgramProcess]:
        root = str(self.tools.root)
        return program(
            "device_plugin",
            f"--config-file={self.config}",
            "--mps-root=/run/nvidia/mps",
            environ=self.environ,
            before=f"from gpu_device_plugin.plugin import mps; mps.MPS_ROOT = {root!r}",
        )

    def divide(self, replicas: int) -> None:
        self.replicas = replicas
        self.config.write_text(CONFIG.replace("4", str(replicas)))

    def daemon_program(self) -> AbstractAsyncContextManager[ProgramProcess]:
        return program(
            "mps_control_daemon",
            f"--config-file={self.config}",
            environ=self.environ,
            before=self.before,
        )

    @property
    def is_well(self) -> bool:
        """The marks are there, and the daemon is; its limits were read back before the marks."""
        started = os.path.exists(self.tools.files().started)
        return started and (self.tools.root / ".ready").exists() and bool(self.tools.daemon())

    def control_programs(self) -> list[int]:
        """Calls of the control program that run just now."""
        name = str(self.tools.control)
        found = [pid for pid, arguments in command_lines() if name in arguments]
        return [pid for pid in found if pid != self.tools.daemon()]


class Restarted:
    """A program that is started anew when it has been killed."""

    def __init__(
        self, start: Callable[[], AbstractAsyncContextManager[ProgramProcess]], sign: str
    ) -> None:
        self._start, self._sign = start, sign
        self._life = AsyncExitStack()
        self.process: ProgramProcess

    async def __aenter__(self) -> Self:
        self.process = await self._life.enter_async_context(self._start())
        await self.process.logged(self._sign, LIMIT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._life.aclose()

    async def kill(self) -> None:
        self.process.process.kill()
        await self.process.ended()
        await self._life.aclose()
        await self.__aenter__()

    async def end(self) -> int:
        self.process.signal(signal.SIGTERM)
        return await self.process.ended()


async def well(node: Node, kubelet: SimulatedKubelet) -> None:
    await until(lambda: node.is_well, LIMIT)
    await kubelet.until(allocatable(4 * node.replicas), "all replicas", LIMIT)


@pytest.mark.torture
def test_a_hundred_kills(tmp_path_factory):
    seed = int(os.environ.get("TORTURE_SEED", time.time()))
    print(f"seed {seed}")
    choice = random.Random(seed)
    node = Node(tmp_path_factory.mktemp("m"))
    killed = dict.fromkeys(("plugin", "program", "daemon", "both", "control program"), 0)

    async def hit(whom: str, manager: Restarted, plugin: Restarted) -> None:
        if whom == "control program":
            node.divide(choice.choice([2, 4, 8]))
            manager.process.signal(signal.SIGHUP)
            plugin.process.signal(signal.SIGHUP)
            await asyncio.sleep(choice.random() / 4)
            for pid in node.control_programs():
                os.kill(pid, signal.SIGKILL)
        former = node.tools.daemon()
        if whom in {"daemon", "both"} and former:
            node.tools.kill_daemon()
        if whom in {"program", "both"}:
            await manager.kill()
        if whom in {"daemon", "both"}:
            await until(lambda: node.tools.daemon() not in {0, former}, LIMIT)
        if whom == "plugin":
            await plugin.kill()

    async def work() -> None:
        async with (
            SimulatedKubelet(str(node.kubelet_directory)) as kubelet,
            Restarted(node.daemon_program, "] ready") as manager,
            Restarted(node.plugin_program, "registered resource") as plugin,
        ):
            await well(node, kubelet)
            for _ in range(KILLS):
                whom = choice.choice(list(killed))
                killed[whom] += 1
                await hit(whom, manager, plugin)
                await well(node, kubelet)
            assert await plugin.end() == 0
            assert await manager.end() == 0

    try:
        asyncio.run(work())
    finally:
        node.tools.clean_up()
    print(killed)
    assert os.listdir(node.tools.files().directory) == ["pipe"]
    assert not node.control_programs()
