"""The plugin's side of MPS: containers get the way to the daemon, and only once it answers.

As in k8s-device-plugin v0.19.3 (internal/plugin/mps.go), but for resources shared through MPS,
and with a wait of its own instead of a start that fails and is tried again after 30 s.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_device_plugin.backoff import Backoff
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.hardware.roots import join_root
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.mps.lock import is_held
from gpu_device_plugin.mps.names import (
    MPS_ROOT,
    PIPE_VARIABLE,
    DaemonFiles,
    is_absent,
    ready_file,
)
from gpu_device_plugin.mps.plan import is_shared
from gpu_device_plugin.mps.tool import ControlTool, DaemonAbsent, ToolError
from gpu_device_plugin.news import News
from gpu_device_plugin.resources.model import Resource

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""How often the files are looked at by which mps-control-daemon tells how far it has come."""
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 30.0
"""Seconds after which a daemon is asked again though no file has changed."""


@dataclass(frozen=True, slots=True)
class MpsInjector:
    """Gives a container the pipes and the shared memory of its resource's daemon."""

    host_root: str
    """The daemons' directory on the host (``--mps-root``)."""

    def inject(
        self,
        response: pb.ContainerAllocateResponse,
        resource: Resource,
        names: Sequence[str],  # noqa: ARG002 - every device of a resource has one daemon
    ) -> None:
        """Completes the response; a resource that is not shared through MPS has no daemon."""
        if not is_shared(resource):
            return
        pipe = DaemonFiles(MPS_ROOT, resource.name).pipe
        response.envs[PIPE_VARIABLE] = pipe
        host_pipe = join_root(self.host_root, f"/{resource.name}/pipe")
        response.mounts.add(container_path=pipe, host_path=host_pipe)
        host_shm = join_root(self.host_root, "/shm")
        response.mounts.add(container_path="/dev/shm", host_path=host_shm)  # noqa: S108 - its place


def mps_injector(config: Config) -> MpsInjector:
    """The injector for a validated configuration that shares resources through MPS."""
    return MpsInjector(config.flags.mps_root or "")


class MpsReadiness:
    """Whether the daemon of a resource runs with its limits."""

    def __init__(
        self, resource: Resource, *, tool: ControlTool | None = None, root: str = ""
    ) -> None:
        """Prepares to ask a daemon.

        Args:
            resource: whose daemon it is.
            tool: the control program.
            root: the daemons' directory, as this process sees it; by default where it is
                mounted in the plugin's container.
        """
        self._is_needed = is_shared(resource)
        self._root = root or MPS_ROOT
        self._files = DaemonFiles(self._root, resource.name)
        self._tool = tool or ControlTool()
        self._news = News()

    async def ready(self) -> None:
        """Returns once the daemon answers and has its limits; logs each reason to wait once.

        What a control program that hangs has started is killed if the wait is cancelled.
        """
        if not self._is_needed:
            return
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            before = self._traces()
            problem, detail = await self._ask()
            if not problem:
                break
            self._tell(problem, detail)
            await self._wait_for_change(before, pauses.next())
        if self._news.end():
            log.info("the MPS daemon answers resource=%s", self._files.resource)

    async def lost(self) -> str:
        """Returns, with the reason, when a daemon has been withdrawn, or has given its lock back.

        To be called after `ready`. A daemon that was never marked as started is not watched. On a
        read-only file system the mark of one that has died stays. What cannot be seen for now,
        such as without a file descriptor to spare, is as it was.
        """
        if not self._is_needed:
            await asyncio.Event().wait()
        while not os.path.exists(self._files.started):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(LOOK_SECONDS)
        was_held = False
        while not is_absent(self._files.started):
            now_held = is_held(self._files, unknown=was_held)
            if was_held and not now_held:
                return f"nobody holds {self._files.lock} any more: the MPS daemon has ended"
            was_held = now_held
            await asyncio.sleep(LOOK_SECONDS)
        return f"{self._files.started} has been removed: the MPS daemon has ended"

    async def _ask(self) -> tuple[str, str]:
        """Why the daemon cannot be used yet, in short and in full; empty if it can."""
        try:
            await self._tool.command(self._files, "get_default_active_thread_percentage")
        except DaemonAbsent as error:
            return "no daemon", f"{error} ({self._hint()})"
        except ToolError as error:
            return type(error).__name__, f"{error} ({self._hint()})"
        # The directory for logs is made before the daemon, the mark after it has its limits.
        if os.path.isdir(self._files.log) and not os.path.exists(self._files.started):
            return "no limits", f"it is being started: there is no {self._files.started} yet"
        return "", ""

    def _hint(self) -> str:
        return (
            "mps-control-daemon must run on this node: the Helm chart deploys it to nodes with the "
            "label nvidia.com/mps.capable=true. Its directory on the host, --mps-root (MPS_ROOT), "
            f"must be mounted here at {self._root}"
        )

    def _tell(self, problem: str, detail: str) -> None:
        level = logging.WARNING if self._news.is_new(problem) else logging.DEBUG
        log.log(
            level, "waiting for the MPS daemon resource=%s reason=%r", self._files.resource, detail
        )

    def _traces(self) -> tuple[tuple[int, int] | None, ...]:
        """What tells one state of the daemon's files from another."""
        watched = (
            ready_file(self._root),
            self._files.started,
            os.path.join(self._files.pipe, "control"),
        )
        return tuple(_identity(path) for path in watched)

    async def _wait_for_change(self, before: tuple[object, ...], limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                while self._traces() == before:  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
