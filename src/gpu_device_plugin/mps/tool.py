"""NVIDIA's control program: starting a daemon, and talking to it.

Its exit code says only whether a daemon was reached: a refused value, too, ends with 0. What
counts is what it prints, and what a ``get_…`` command reads back (NVIDIA MPS documentation,
nvidia-cuda-mps-control; measured with 535.309.01).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gpu_device_plugin.mps.names import CONTROL_TOOL, DaemonFiles
from gpu_device_plugin.mps.processes import NotInTime, Outcome, find_program, run_process

COMMAND_SECONDS = 5.0
"""Longest time for a command; a healthy daemon answers in milliseconds."""

_SIZE = re.compile(r"(\d+)([KMGT])")
_MEBIBYTES = {"M": 1, "G": 1024, "T": 1024 * 1024}


class ToolError(Exception):
    """The control program could not do what it was told; the text is for a user."""


class ToolMissing(ToolError):
    """There is no control program."""


class ToolHangs(ToolError):
    """The control program gave no answer in time."""


class DaemonAbsent(ToolError):
    """No daemon was reached, or it could not do what it was asked."""


@dataclass(frozen=True, slots=True)
class ControlTool:
    """The control program, as it is called for one daemon after another."""

    program: str = CONTROL_TOOL
    """Its path, or its name to be looked up in PATH."""
    seconds: float = COMMAND_SECONDS
    """Longest time for a command."""

    async def start_daemon(self, files: DaemonFiles) -> Outcome:
        """Starts the daemon of a resource; returns when it has gone to the background.

        Raises:
            ToolMissing: there is no control program.
            ToolHangs: it does not return in time.
        """
        return await self._run(files, ("-d",), "", self.seconds)

    async def command(self, files: DaemonFiles, text: str, seconds: float = 0) -> Outcome:
        """Gives the daemon of a resource a command.

        Args:
            files: those of the daemon.
            text: the command and its arguments.
            seconds: longest time that it may take, if not the usual one.

        Raises:
            ToolMissing: there is no control program.
            ToolHangs: the daemon does not answer in time.
            DaemonAbsent: there is no daemon.
            ToolError: the control program does not know the command.
        """
        name = text.partition(" ")[0]
        outcome = await self._run(files, (), text, seconds or self.seconds)
        if "unknown command" in outcome.text.lower():
            raise ToolError(
                f"{self.program} does not know the command {name}: the driver is too old for the "
                "limits of MPS, which need CUDA 11.5 (driver 495) or newer"
            )
        if outcome.exit_code:
            said = outcome.text or "nothing"
            raise DaemonAbsent(
                f"{self.program} {name} ended with {outcome.exit_code}, it says: {said}"
            )
        return outcome

    async def _run(
        self, files: DaemonFiles, arguments: tuple[str, ...], text: str, seconds: float
    ) -> Outcome:
        path = find_program(self.program)
        if path is None:
            raise ToolMissing(self._why_missing())
        try:
            return await run_process(
                (path, *arguments), limit=seconds, env=files.environment, text=text
            )
        except NotInTime:
            what = text.partition(" ")[0] or " ".join(arguments)
            raise ToolHangs(f"{self.program} {what}: no answer within {seconds:g} s") from None
        except OSError as error:
            raise ToolMissing(f"{path} cannot be run: {error.strerror}") from None

    def _why_missing(self) -> str:
        setting = "set by --mps-control-binary or MPS_CONTROL_BINARY"
        if "/" in self.program:
            is_there = os.path.exists(self.program)
            what = "is not an executable file" if is_there else "is not found"
            return f"{self.program} {what}: {setting}"
        origin = "" if self.program == CONTROL_TOOL else f"; the name is {setting}"
        return (
            f"{self.program} is not found: it comes with the NVIDIA driver, and is put into "
            "the container by the NVIDIA container runtime with "
            f"NVIDIA_DRIVER_CAPABILITIES=compute,utility{origin}"
        )


def shows_percentage(answer: str, wanted: int) -> bool:
    """Whether an answer tells that clients get such a share of the threads."""
    words = answer.split()
    try:
        return bool(words) and float(words[-1]) == wanted
    except ValueError:
        return False


def shows_memory_limit(answer: str, wanted: int) -> bool:
    """Whether an answer tells of a limit of so many MiB; the daemon rounds down to whole units."""
    found = _SIZE.fullmatch(answer.strip())
    if found is None:
        return False
    number, unit = int(found[1]), found[2]
    if unit == "K":
        return number == wanted * 1024
    return number == wanted // _MEBIBYTES[unit]
