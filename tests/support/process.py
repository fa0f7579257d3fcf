"""The real plugin program beside a simulated kubelet."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

RUN = "from gpu_device_plugin.programs.entry import device_plugin; device_plugin()"


@dataclass
class PluginProcess:
    """A running ``nvidia-device-plugin`` and what it has logged."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def logged(self, condition: str | Callable[[str], bool], limit: float = 10) -> None:
        """Waits until the log holds a text."""
        found = condition if callable(condition) else lambda log: condition in log
        try:
            async with asyncio.timeout(limit):
                while not found(self.log):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not in the log: {condition}\n{self.log}") from None

    async def ended(self, limit: float = 10) -> int:
        async with asyncio.timeout(limit):
            return await self.process.wait()

    async def follow(self) -> None:
        await follow(self.process, self.lines, self._news)


async def follow(
    process: asyncio.subprocess.Process, lines: list[str], news: asyncio.Event
) -> None:
    """Takes in what a program logs, line by line, until it has ended."""
    assert process.stderr is not None
    async for line in process.stderr:
        lines.append(line.decode(errors="replace").rstrip("\n"))
        news.set()


@asynccontextmanager
async def plugin(
    directory: Path, *arguments: str, environ: dict[str, str] | None = None, before: str = ""
) -> AsyncIterator[PluginProcess]:
    """Starts the program; kills it at the end if it still runs, and shows its log.

    Args:
        directory: of the kubelet's and the plugin's sockets.
        arguments: of its command line.
        environ: variables on top of our own.
        before: statements to run before it.
    """
    env = {
        **os.environ,
        "GPU_NODE_SIMULATE": "t4x4",
        "GPU_NODE_PLUGIN_DIR": str(directory),
        "KUBELET_SOCKET": str(directory / "kubelet.sock"),
        **(environ or {}),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", before + RUN, *arguments),
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with followed(process) as running:
        yield running


@asynccontextmanager
async def followed(process: asyncio.subprocess.Process) -> AsyncIterator[PluginProcess]:
    """Collects a program's log and, at the end, ends it if it still runs, and shows its log."""
    running = PluginProcess(process)
    follower = asyncio.create_task(running.follow())
    try:
        yield running
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await running.ended()
            except TimeoutError:
                process.kill()
                await process.wait()
        await follower
        sys.stdout.write(running.log + "\n")
        assert "Traceback" not in running.log


@asynccontextmanager
async def node(
    directory: Path, *arguments: str, environ: dict[str, str] | None = None
) -> AsyncIterator[tuple[SimulatedKubelet, PluginProcess]]:
    """A kubelet and a plugin."""
    async with (
        SimulatedKubelet(str(directory)) as kubelet,
        plugin(directory, *arguments, environ=environ) as running,
    ):
        yield kubelet, running
