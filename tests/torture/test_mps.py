"""A hundred times somebody is killed with -9: the node is as it should be each time."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from support.mps import GPU, MpsTools
from support.programs import ProgramProcess, program

from gpu_device_plugin.mps.processes import command_lines

KILLS = int(os.environ.get("TORTURE_KILLS", "100"))
LIMIT = 60.0
"""Seconds until all is well again; a daemon that dies often is restarted ever more slowly."""
CONFIG = f"sharing: {{mps: {{resources: [{{name: {GPU}, replicas: 4}}]}}}}\n"


class Node:
    """A node with an MPS daemon, and a plugin that waits for it."""

    def __init__(self, directory: Path) -> None:
        self.tools = MpsTools.make(directory)
        self.config = directory / "config.yaml"
        self.config.write_text(CONFIG)
        self.before = f"program.MPS_ROOT = {str(self.tools.root)!r}"
        self.environ = {"PATH": f"{directory}:/usr/bin:/bin", "GPU_NODE_SIMULATE": "t4x4"}

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


async def well(node: Node, process: ProgramProcess) -> None:
    async with asyncio.timeout(LIMIT):
        while not node.is_well:
            assert process.process.returncode is None
            await asyncio.sleep(0.005)


@pytest.mark.torture
def test_a_hundred_kills(tmp_path_factory):
    seed = int(os.environ.get("TORTURE_SEED", time.time()))
    print(f"seed {seed}")
    choice = random.Random(seed)
    node = Node(tmp_path_factory.mktemp("m"))
    killed = dict.fromkeys(("program", "daemon", "both", "control program"), 0)

    async def life(kills: int) -> int:
        """One life of the program, with kills until it is hit itself; how many are left."""
        async with node.daemon_program() as process:
            await process.logged("] ready", LIMIT)
            while kills:
                await well(node, process)
                kills -= 1
                whom = choice.choice(["program", "daemon", "daemon", "both", "control program"])
                killed[whom] += 1
                if whom == "control program":
                    node.config.write_text(CONFIG.replace("4", choice.choice(["2", "4", "8"])))
                    process.signal(signal.SIGHUP)
                    await asyncio.sleep(choice.random() / 4)
                    for pid in node.control_programs():
                        os.kill(pid, signal.SIGKILL)
                if whom in {"daemon", "both"} and node.tools.daemon():
                    node.tools.kill_daemon()
                if whom in {"program", "both"}:
                    process.process.kill()
                    await process.ended()
                    return kills
        return 0

    async def work() -> None:
        kills = KILLS
        while kills:
            kills = await life(kills)
        async with node.daemon_program() as process:
            await process.logged("] ready", LIMIT)
            process.signal(signal.SIGTERM)
            assert await process.ended() == 0

    try:
        asyncio.run(work())
    finally:
        node.tools.clean_up()
    print(killed)
    assert os.listdir(node.tools.files().directory) == ["pipe"]
    assert not node.control_programs()
