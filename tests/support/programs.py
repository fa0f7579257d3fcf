"""Any of the programs as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.process import PluginProcess as ProgramProcess
from support.process import followed

__all__ = ["ProgramProcess", "program"]


@asynccontextmanager
async def program(
    module: str, *arguments: str, environ: dict[str, str] | None = None, before: str = ""
) -> AsyncIterator[ProgramProcess]:
    """Starts a program; ends it if it still runs, and shows its log, which has no traceback.

    Args:
        module: of the program, below ``gpu_device_plugin.programs``.
        arguments: of its command line.
        environ: variables on top of our own.
        before: statements to run before it, with the module as ``program``.
    """
    code = f"import gpu_device_plugin.programs.{module} as program; {before}; program.main()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code.replace("; ;", ";"), *arguments),
        env={**os.environ, **(environ or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with followed(process) as running:
        yield running
