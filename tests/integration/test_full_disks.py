"""The real plugin on file systems that are full, or become read-only, and are mended.

They are in a mount namespace of the program's own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.aio import run
from support.cdi_node import FILE, Node
from support.process import RUN, PluginProcess, followed
from support.serving import allocatable

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

SPECS = "/run/cdi"
SET_UP = f"""
mount -t tmpfs none /run && mkdir {SPECS} && mount -t tmpfs -o size=64k,nr_inodes=8 none {SPECS} &&
exec "$@"
"""
TROUBLES = {
    "full": (f"dd if=/dev/zero of={SPECS}/filler", f"rm {SPECS}/filler", "No space left"),
    "without inodes": (
        f"for n in 1 2 3 4 5 6 7; do touch {SPECS}/filler$n; done",
        f"rm {SPECS}/filler*",
        "no inode is left",
    ),
    "read-only": (
        f"mount -o remount,ro {SPECS}",
        f"mount -o remount,rw {SPECS}",
        "must be mounted read-write",
    ),
}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"),
    reason="only root can mount, with unshare and nsenter",
)


async def inside(running: PluginProcess, command: str) -> None:
    """Runs a command among the mounts of a program; whether it succeeds is for the disk to say."""
    target = f"--target={running.process.pid}"
    process = await asyncio.create_subprocess_exec(
        *("nsenter", target, "--mount", "sh", "-c", command), stderr=asyncio.subprocess.DEVNULL
    )
    await process.wait()


@asynccontextmanager
async def plugin_with_mounts(
    directory: Path, config: Path, environ: dict[str, str]
) -> AsyncIterator[PluginProcess]:
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", SET_UP, "sh"),
        *(sys.executable, "-c", RUN, f"--config-file={config}"),
        env={
            **environ,
            "GPU_NODE_PLUGIN_DIR": str(directory),
            "KUBELET_SOCKET": str(directory / "kubelet.sock"),
        },
        stderr=asyncio.subprocess.PIPE,
    )
    async with followed(process) as running:
        yield running


@pytest.mark.parametrize("trouble", TROUBLES)
def test_specifications_that_cannot_be_written_are_written_as_soon_as_they_can(tmp_path, trouble):
    breaks, mends, told = TROUBLES[trouble]
    driver = Node(tmp_path)
    config, sockets = tmp_path / "config.yaml", tmp_path / "sockets"
    config.write_text("version: v1")
    sockets.mkdir()

    async def work():
        async with (
            SimulatedKubelet(str(sockets)) as kubelet,
            plugin_with_mounts(sockets, config, driver.environ) as running,
        ):
            await kubelet.until(allocatable(4), "four GPUs")
            specs = Path(f"/proc/{running.process.pid}/root{SPECS}")
            before = (specs / FILE).read_text()
            await inside(running, breaks)
            config.write_text(
                "{version: v1, sharing: {timeSlicing: {resources: "
                "[{name: nvidia.com/gpu, replicas: 2}]}}}"
            )
            running.signal(signal.SIGHUP)
            await running.logged("what was offered before is offered until that has passed")
            assert told in running.log
            assert (specs / FILE).read_text() == before
            await kubelet.until(allocatable(4), "four GPUs still")
            await inside(running, mends)
            await kubelet.until(allocatable(8), "the new configuration")
            assert [path.name for path in specs.iterdir()] == [FILE]
            running.signal(signal.SIGTERM)
            assert await running.ended(2) == 0

    run(work(), 30)
