"""Runs programs as containers of manifests are told to, on a simulated node."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from deployment.charts import Object, environ
from support.process import PluginProcess

LIMIT = 20.0
ENTRYPOINT = "nvidia-device-plugin"
"""What the image runs if a container says nothing else."""
ON_A_NODE = {"<spec.nodeName>": "node1", "<metadata.namespace>": "gpu", "<metadata.name>": "pod1"}


def command_line(container: Object) -> list[str]:
    """Program and arguments, with the program of this environment."""
    command: list[str] = [*container.get("command", [ENTRYPOINT]), *container.get("args", [])]
    program, *arguments = command
    return [str(Path(sys.executable).with_name(os.path.basename(program))), *arguments]


def variables(container: Object, **changed: str) -> dict[str, str]:
    """The environment of a container; what is a path of the pod has to be changed."""
    given = {name: ON_A_NODE.get(value, value) for name, value in environ(container).items()}
    keep = ("PATH", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "HOME", "PYTHONPATH")
    return {k: os.environ[k] for k in keep if k in os.environ} | given | changed


async def finish(command: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and log of a program that ends by itself."""
    process = await asyncio.create_subprocess_exec(
        *command, env=dict(env), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(LIMIT):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


@asynccontextmanager
async def running(command: Sequence[str], env: Mapping[str, str]) -> AsyncIterator[PluginProcess]:
    """A program that goes on; it is ended and its log shown."""
    process = await asyncio.create_subprocess_exec(
        *command, env=dict(env), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    program = PluginProcess(process)
    follower = asyncio.create_task(program.follow())
    try:
        yield program
    finally:
        if process.returncode is None:
            process.terminate()
            await program.ended()
        await follower
        sys.stdout.write(program.log)
        assert "Traceback" not in program.log
