"""One control daemon: its start, its life, its end (k8s-device-plugin v0.19.3, mps/daemon.go)."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass, field

from gpu_device_plugin.mps.compute_mode import (
    ComputeMode,
    ComputeModeError,
    ComputeModes,
    reset_all,
)
from gpu_device_plugin.mps.limits import has_limits, set_limits
from gpu_device_plugin.mps.lock import is_held, lock_holder
from gpu_device_plugin.mps.log_tail import LogTail
from gpu_device_plugin.mps.names import DaemonFiles, touch
from gpu_device_plugin.mps.plan import DaemonSpec
from gpu_device_plugin.mps.processes import wait_for_end
from gpu_device_plugin.mps.remains import Remover, end_daemon
from gpu_device_plugin.mps.selinux import label_for_containers
from gpu_device_plugin.mps.tool import ControlTool, ToolError
from gpu_device_plugin.storage import remedy, write_error

log = logging.getLogger(__name__)

LOCK_SECONDS = 1.0
"""Longest time until a daemon that went to the background holds its lock."""
POLL_SECONDS = 0.02
WATCH_SECONDS = 1.0
"""How often the lock is looked at where the daemon's process cannot be seen."""


class StartFailed(Exception):
    """A daemon could not be started; the text is for a user."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What daemons need besides what they shall be."""

    root: str
    tool: ControlTool
    modes: ComputeModes
    remover: Remover = field(default_factory=Remover)


class MpsDaemon:
    """The daemon of one resource."""

    def __init__(self, spec: DaemonSpec, around: Surroundings) -> None:
        self.spec = spec
        self.files = DaemonFiles(around.root, spec.resource)
        self.pid: int | None = None
        """The daemon's number; None if it is none that can be watched."""
        self._tool = around.tool
        self._modes = around.modes
        self._remover = around.remover
        self._tail: LogTail | None = None
        self._exclusive = list[str]()
        self._is_started = False

    async def start(self) -> None:
        """Starts the daemon, or takes over one that lives and is as it shall be.

        Raises:
            StartFailed: it does not run with its limits.
        """
        try:
            await self._make_exclusive()
            os.makedirs(self.files.pipe, 0o755, exist_ok=True)
            label_for_containers(self.files.pipe)
            if not await self._take_over():
                os.makedirs(self.files.log, 0o755, exist_ok=True)
                await self._launch()
                await set_limits(self._tool, self.files, self.spec, verify=self.pid is not None)
            touch(self.files.started)
        except (ToolError, ComputeModeError) as error:
            raise StartFailed(str(error)) from None
        except OSError as error:
            raise StartFailed(
                f"{error.filename or self.files.directory}: {error.strerror}"
            ) from None
        self._tail = LogTail(self.spec.resource, self.files.control_log)
        self._tail.start()

    async def wait_for_death(self) -> None:
        """Returns when the daemon has ended; never if it cannot be watched."""
        if self.pid is None:
            await asyncio.Event().wait()
        elif self.pid > 0:
            await wait_for_end(self.pid, self._has_ended)
        else:
            while is_held(self.files, unknown=True):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(WATCH_SECONDS)

    def _has_ended(self) -> bool:
        """Whether another, or nobody, is known to hold the lock."""
        try:
            return lock_holder(self.files) != self.pid
        except OSError:
            return False

    async def stop(self) -> list[str]:
        """Ends the daemon, if it lives, and undoes all that was done for it.

        Returns:
            What could not be undone.
        """
        self._remover.withdraw(self.files.started)
        is_unseen = self._is_started and self.pid is None
        problems = await end_daemon(self._tool, self.files, unseen_too=is_unseen)
        self._is_started = False
        self.pid = None
        if self._tail is not None:
            await self._tail.stop()
            self._tail = None
        problems += await reset_all(self._modes, self._exclusive)
        self._exclusive.clear()
        self._remover.remove_files(self.files)
        return problems

    async def _make_exclusive(self) -> None:
        for gpu in self.spec.gpus:
            # Noted before: a call that is cut off may have had its effect.
            self._exclusive.append(gpu)
            await self._modes.set(gpu, ComputeMode.EXCLUSIVE_PROCESS)

    async def _take_over(self) -> bool:
        """Makes a daemon that an earlier program has left ours; one that does not fit is ended.

        Raises OSError if it cannot be seen whether there is one.
        """
        pid = lock_holder(self.files)
        if pid is None:
            return False
        if await has_limits(self._tool, self.files, self.spec):
            log.info("taking over the daemon that runs resource=%s pid=%d", self.spec.resource, pid)
            self.pid, self._is_started = pid, True
            return True
        log.info("replacing the daemon that runs resource=%s pid=%d", self.spec.resource, pid)
        await self._end_other(unseen_too=False)
        return False

    async def _end_other(self, *, unseen_too: bool) -> None:
        problems = await end_daemon(self._tool, self.files, unseen_too=unseen_too)
        if problems:
            raise StartFailed("; ".join(problems))

    async def _launch(self) -> None:
        outcome = await self._tool.start_daemon(self.files)
        if outcome.exit_code and "already running" in outcome.text:
            await self._end_other(unseen_too=True)
            outcome = await self._tool.start_daemon(self.files)
        if outcome.exit_code:
            raise StartFailed(
                f"{self._tool.program} -d ended with {outcome.exit_code}, "
                f"it says: {outcome.text or 'nothing'}"
            )
        self._is_started = True
        self.pid = await self._find()
        log.info("the MPS daemon has started resource=%s pid=%s", self.spec.resource, self.pid)

    async def _find(self) -> int | None:
        """The process that holds the lock now; None for a control program that knows no lock.

        Raises OSError if that cannot be seen.
        """
        if not os.path.exists(self.files.lock):
            log.warning(
                "the daemon holds no %s, as NVIDIA's does: it is not watched, and its limits are "
                "not read back resource=%s",
                *(self.files.lock, self.spec.resource),
            )
            return None
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                while (pid := lock_holder(self.files)) is None:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise StartFailed(f"the MPS daemon ended at once; {self._why_at_once()}") from None
        return pid

    def _why_at_once(self) -> str:
        error = write_error(self.files.pipe)
        if error is None:
            return f"{self.files.control_log} may say why"
        hint = remedy(error, self.files.pipe)
        return f"nothing can be written to {self.files.pipe}: {error.strerror}" + (
            f" ({hint})" if hint else ""
        )
