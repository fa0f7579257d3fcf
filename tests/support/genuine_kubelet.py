"""The device manager of a genuine kubelet, where somebody has built it, and the plugin beside it.

``make genuine`` builds the program from ``tests/genuine/devicemanager``;
``KUBELET_DEVICE_MANAGER`` names one that lies elsewhere. It serves a fixed path, so it runs in a
mount namespace of its own, in which a directory of the test lies there. The plugin needs no
namespace: it finds the same sockets in that directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.process import PluginProcess, follow, plugin

BUILT = Path(__file__).parents[2] / "build" / "kubelet-device-manager"
PROGRAM = os.environ.get("KUBELET_DEVICE_MANAGER") or shutil.which(BUILT)
LIMIT = 20.0
LOOK_SECONDS = 0.05
"""Pause between looks where the kubelet announces nothing."""
GPU = "nvidia.com/gpu"

NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
LAY = (
    "mount -t tmpfs none /var/lib && mkdir /var/lib/kubelet && "
    'mount --bind "$1" /var/lib/kubelet && shift && exec "$@"'
)
"""Hides /var/lib, where the host may have a kubelet of its own, below the test's directory."""

Json = dict[str, Any]


def why_not() -> str:
    """Why there is no genuine kubelet; empty if there is one."""
    if PROGRAM is None:
        return "needs the device manager of a kubelet (make genuine)"
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", LAY, "sh", "/tmp", "true"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else "needs the right to mount in a namespace"


class Refused(Exception):
    """The kubelet could not do what it was asked for."""


@dataclass(frozen=True)
class Amounts:
    """The devices of the node, by resource, as its status would tell them."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: tuple[str, ...]

    def of(self, resource: str = GPU) -> tuple[int, int]:
        """Capacity and allocatable of a resource; zeros for one that it does not know."""
        return self.capacity.get(resource, 0), self.allocatable.get(resource, 0)


@dataclass(frozen=True)
class Given:
    """What a container is started with, as put together from the answers of the plugin."""

    devices: dict[str, list[str]]
    envs: dict[str, str]
    mounts: list[tuple[str, str, bool]]
    """Path on the host, path in the container, whether read-only."""
    nodes: list[tuple[str, str, str]]
    """Of devices: path on the host, path in the container, permissions."""
    annotations: dict[str, str]
    cdi: list[str]

    @classmethod
    def of(cls, told: Json) -> Given:
        options = told["options"] or {}
        return cls(
            devices=told["devices"],
            envs={e["Name"]: e["Value"] for e in options.get("Envs") or ()},
            mounts=[
                (m["HostPath"], m["ContainerPath"], m["ReadOnly"])
                for m in options.get("Mounts") or ()
            ],
            nodes=[
                (d["PathOnHost"], d["PathInContainer"], d["Permissions"])
                for d in options.get("Devices") or ()
            ],
            annotations={a["Name"]: a["Value"] for a in options.get("Annotations") or ()},
            cdi=[d["Name"] for d in options.get("CDIDevices") or ()],
        )


@dataclass
class GenuineKubelet:
    """A running device manager and what it has logged."""

    process: asyncio.subprocess.Process
    directory: Path
    """What it sees as ``/var/lib/kubelet``."""
    lines: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def plugins(self) -> Path:
        """The directory of the sockets."""
        return self.directory / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        """The socket that tells which pod has what."""
        return self.directory / "pod-resources.sock"

    def logged(self, text: str) -> int:
        """How many lines of the log hold a text."""
        return sum(text in line for line in self.lines)

    async def ask(self, do: str, **details: Any) -> Any:
        """The answer to a request; raises Refused."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        async with self._turn, asyncio.timeout(LIMIT):
            self.process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
            answer = json.loads(await self.process.stdout.readline())
        if isinstance(answer, dict) and set(answer) == {"error"}:
            raise Refused(answer["error"])
        return answer

    async def amounts(self) -> Amounts:
        told = await self.ask("capacity")
        return Amounts(told["capacity"], told["allocatable"], tuple(told["removed"] or ()))

    async def until(
        self, condition: Callable[[Amounts], bool], what: str, limit: float = LIMIT
    ) -> Amounts:
        """Waits until the amounts are so; looks after each line of the log, and now and then."""
        amounts = await self.amounts()
        try:
            async with asyncio.timeout(limit):
                while not condition(amounts):
                    self._news.clear()
                    try:
                        async with asyncio.timeout(LOOK_SECONDS):
                            await self._news.wait()
                    except TimeoutError:
                        pass
                    amounts = await self.amounts()
        except TimeoutError:
            raise AssertionError(f"not so within {limit:g} s: {what}; now {amounts}") from None
        return amounts

    async def has(self, capacity: int, allocatable: int | None = None, of: str = GPU) -> Amounts:
        """Waits until a resource has so many devices, all of them healthy unless told otherwise."""
        wanted = capacity, capacity if allocatable is None else allocatable
        return await self.until(lambda amounts: amounts.of(of) == wanted, f"{wanted} of {of}")

    async def devices(self, resource: str = GPU) -> list[str]:
        """The ids of the healthy devices of a resource."""
        ids: list[str] = (await self.ask("devices")).get(resource, [])
        return ids

    async def admit(self, pod: str, resources: Mapping[str, int]) -> Given:
        """Gives devices to a pod of one container; raises Refused."""
        containers = [{"name": "main", "resources": dict(resources)}]
        return Given.of((await self.ask("admit", pod=pod, containers=containers))["main"])

    async def options(self, pod: str) -> Given:
        """What a pod's container is started with after a crash."""
        return Given.of((await self.ask("options", pod=pod))["main"])

    async def health(self, pod: str) -> dict[str, str]:
        """The health of a pod's devices, as the status of the pod tells it."""
        told: dict[str, str] = await self.ask("health", pod=pod)
        return told

    async def remove(self, pod: str) -> None:
        await self.ask("remove", pod=pod)

    async def restart(self) -> None:
        """Ends the manager, and makes a new one on the same checkpoint, as a new kubelet does."""
        await self.ask("restart")

    async def follow(self) -> None:
        await follow(self.process, self.lines, self._news)


@asynccontextmanager
async def genuine_kubelet(
    *arguments: str, before: Sequence[str] = (), directory: Path | None = None
) -> AsyncIterator[GenuineKubelet]:
    """Runs the device manager.

    Args:
        arguments: of the program.
        before: a command that starts it, such as one that binds it to a CPU.
        directory: its ``/var/lib/kubelet``, of one that ran before; a new one if None.
    """
    if directory is not None:
        async with _running(directory, arguments, before) as kubelet:
            yield kubelet
        return
    with tempfile.TemporaryDirectory(prefix="kubelet-") as short:  # sockets need a short path
        async with _running(Path(short), arguments, before) as kubelet:
            yield kubelet


@asynccontextmanager
async def _running(
    directory: Path, arguments: Sequence[str], before: Sequence[str]
) -> AsyncIterator[GenuineKubelet]:
    assert PROGRAM is not None
    command = [PROGRAM, "-v=2", "--pod-resources=/var/lib/kubelet/pod-resources.sock", *arguments]
    process = await asyncio.create_subprocess_exec(
        *(*NAMESPACE, "sh", "-c", LAY, "sh", str(directory), *before, *command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    kubelet = GenuineKubelet(process, directory)
    follower = asyncio.create_task(kubelet.follow())
    try:
        await kubelet.amounts()  # it serves when it answers
        yield kubelet
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await follower
        sys.stdout.write("\n".join(kubelet.lines) + "\n")


@asynccontextmanager
async def genuine_node(
    *arguments: str,
    environ: dict[str, str] | None = None,
    statements: str = "",
    kubelet_arguments: Sequence[str] = (),
    before: Sequence[str] = (),
) -> AsyncIterator[tuple[GenuineKubelet, PluginProcess]]:
    """A genuine device manager and the plugin program.

    Args:
        arguments: of the plugin's command line.
        environ: variables of the plugin on top of our own.
        statements: to run before the plugin.
        kubelet_arguments: of the device manager.
        before: a command that starts the device manager.
    """
    async with (
        genuine_kubelet(*kubelet_arguments, before=before) as kubelet,
        plugin(kubelet.plugins, *arguments, environ=environ, before=statements) as running,
    ):
        yield kubelet, running
