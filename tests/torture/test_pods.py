"""The kubelet's pod resources, asked while the kubelet and its socket come to harm.

``TORTURE_SECONDS`` says for how long.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.aio import until
from support.plugins import FakePlugin, device

from gpu_device_plugin.kubelet.podresources import PodResourcesClient
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.pods import PodSpec
from gpu_device_plugin.status.pod_watch import PodWatcher

pytestmark = pytest.mark.torture

SECONDS = float(os.environ.get("TORTURE_SECONDS", "600")) / 10
"""A tenth of what the others have: nothing here takes long."""
GPU = "nvidia.com/gpu"
DEVICES = 8


class Node:
    """A kubelet with pods, whose socket is replaced by all kinds of things."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        (directory / "plugins").mkdir()
        self.socket = str(directory / "pods.sock")
        self.kubelet = SimulatedKubelet(
            str(directory / "plugins"), pod_resources_socket=self.socket
        )
        self.plugin = FakePlugin(str(directory / "plugins"))
        self.acts: list[str] = []

    async def start(self) -> None:
        await self.kubelet.start()
        gpus = [device(f"GPU-{n}", node=n % 2) for n in range(DEVICES)]
        await self.plugin.serve(self.kubelet, *gpus)
        await self.kubelet.until(lambda v: v.resource(GPU).allocatable == DEVICES, "devices")

    async def restart(self) -> None:
        """The kubelet goes and comes back."""
        await self.kubelet.stop()
        await self.start()

    async def turn_pods(self) -> None:
        """Some pods end, others begin."""
        names = list(self.kubelet.view().pods)
        self.kubelet.delete(self.random.sample(names, len(names) // 2))
        free = self.kubelet.view().resource(GPU).free
        if free:
            count = self.random.randint(1, free)
            name = f"pod-{self.random.getrandbits(32)}"
            await self.kubelet.admit(PodSpec.of(name, {GPU: count}))

    async def vanish(self) -> None:
        """The socket is removed for a moment."""
        os.unlink(self.socket)
        await self.restart()

    async def forbid(self) -> None:
        """The kubelet refuses for a moment."""
        self.kubelet.pod_resources.refusal = "not now"
        await asyncio.sleep(self.random.random() / 50)
        self.kubelet.pod_resources.refusal = ""

    async def babble(self) -> None:
        """Something else answers at the socket, with nonsense."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                await reader.read(1)
                writer.write(self.random.randbytes(self.random.randint(0, 300)))
                await writer.drain()
            writer.transport.abort()

        await self.kubelet.stop()
        server = await asyncio.start_unix_server(answer, self.socket)
        await asyncio.sleep(self.random.random() / 20)
        server.close()
        await server.wait_closed()
        await self.start()

    async def be_a_directory(self) -> None:
        """There is a directory in place of the socket."""
        await self.kubelet.stop()
        os.mkdir(self.socket)
        await asyncio.sleep(self.random.random() / 50)
        os.rmdir(self.socket)
        await self.start()

    def act(self) -> Callable[[], Awaitable[None]]:
        chosen = self.random.choice(
            [
                *[self.turn_pods] * 4,
                self.restart,
                self.vanish,
                self.forbid,
                self.babble,
                self.be_a_directory,
            ]
        )
        self.acts.append(chosen.__name__)
        return chosen

    def knows(self, watcher: PodWatcher) -> bool:
        """Whether the watcher knows what the kubelet knows."""
        pods, holders = watcher.pods()
        if pods.problem or holders is None:
            return False
        held = {
            (assignment.resource, device_id): pod.name
            for pod in self.kubelet.view().pods.values()
            for assignment in pod.assignments
            for device_id in assignment.device_ids
        }
        return held == {key: holder.pod for key, (holder,) in holders.items()}


def test_who_holds_what_is_known_again_after_whatever_happens(tmp_path, caplog):
    seed = random.randrange(2**32)
    print(f"seed {seed}")

    async def work() -> None:
        node = Node(tmp_path, seed)
        await node.start()
        watcher = PodWatcher(PodResourcesClient(node.socket), interval=0.002)
        async with watcher.running():
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                await node.act()()
                try:
                    await until(lambda: node.knows(watcher), 10)
                except TimeoutError:
                    raise AssertionError((node.acts[-10:], watcher.pods())) from None
        await node.plugin.stop()
        await node.kubelet.stop()
        print(f"{len(node.acts)} acts, {node.kubelet.pod_resources.asked} questions")

    asyncio.run(work())

    assert not [record for record in caplog.records if record.exc_info]
