"""Ten minutes of everything that happens to a plugin in a year.

`make torture`, or ``TORTURE_SECONDS=60 make torture`` for a taste. Each act is drawn at random
(the seed is printed); after each one the kubelet's list has to become the truth.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.aio import run
from support.process import PluginProcess, plugin
from support.serving import GPU

from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import PluginClient, channel
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet
from gpu_device_plugin.simulation.views import NodeView

SECONDS = float(os.environ.get("TORTURE_SECONDS", "600"))
GPUS = 8
MOST_EXTRA_FILES = 6
"""Connections that may be on their way out when the files are counted."""


@dataclass
class Torture:
    """A plugin, a kubelet, and what should be true of them."""

    directory: Path
    kubelet: SimulatedKubelet
    running: PluginProcess
    replicas: int = 1
    broken: set[int] = field(default_factory=set)
    acts: Counter[str] = field(default_factory=Counter)
    restarts: int = 0

    @property
    def config(self) -> Path:
        return self.directory / "config.yaml"

    def write_config(self, replicas: int) -> None:
        self.replicas = replicas
        entry = f"name: nvidia.com/gpu, replicas: {replicas}"
        sharing = f"sharing: {{timeSlicing: {{resources: [{{{entry}}}]}}}}\n"
        text = "version: v1\n" + (sharing if replicas > 1 else "")
        self.config.write_text(text)

    def is_true(self, view: NodeView) -> bool:
        """Whether the kubelet knows exactly the devices there are, with their health."""
        resource = view.resource(GPU)
        sick = {d.id.partition("::")[0] for d in resource.devices if not d.is_healthy}
        return (
            resource.is_connected
            and resource.capacity == GPUS * self.replicas
            and len({d.id for d in resource.devices}) == resource.capacity
            and len(sick) == len(self.broken)
        )

    async def settle(self, what: str) -> None:
        await self.kubelet.until(self.is_true, f"the truth after {what}", 20)

    # ------------------------------------------------------------------------- acts

    async def restart_kubelet(self) -> None:
        self.broken.clear()
        for _ in range(5):
            await self.kubelet.restart()
            await self.settle("a restart of the kubelet")
            self.restarts += 1

    async def drop_connections(self) -> None:
        await self.kubelet.drop_connections()

    async def good_reload(self) -> None:
        self.write_config(random.choice([1, 2, 7, 50]))
        self.broken.clear()
        before = self.kubelet.view().registrations
        self.running.signal(signal.SIGHUP)
        await self.kubelet.until(
            lambda v: v.registrations > before, "registration after SIGHUP", 20
        )

    async def bad_reload(self) -> None:
        good = self.config.read_text()
        kept = self.running.log.count("stays in force")
        self.config.write_text(random.choice(["version: v9", "flags: [", "sharing: 7", "\x01"]))
        self.running.signal(signal.SIGHUP)
        await self.running.logged(lambda log: log.count("stays in force") > kept)
        self.config.write_text(good)

    async def storm_of_reloads(self) -> None:
        self.broken.clear()
        before = self.kubelet.view().registrations
        for _ in range(random.randint(2, 6)):
            self.running.signal(signal.SIGHUP)
            await asyncio.sleep(random.random() * 0.05)
        await self.kubelet.until(
            lambda v: v.registrations > before, "registration after SIGHUP", 20
        )
        await asyncio.sleep(0.3)

    async def remove_socket(self) -> None:
        before = self.kubelet.view().registrations
        (self.directory / "nvidia-gpu.sock").unlink()
        await self.kubelet.until(lambda v: v.registrations > before, "a new socket", 20)

    async def xid(self) -> None:
        # A GPU that is broken already would give no sign by which to tell when it is over.
        whole = sorted(set(range(GPUS)) - self.broken)
        if not whole:
            return
        gpu = random.choice(whole)
        await self.running.logged("stream opened")
        await asyncio.sleep(1.5)  # the watch is handed over a second after a reload
        self.broken.add(gpu)
        with (self.directory / "events").open("a") as events:
            events.write(f"xid {gpu} 79\n")

    async def many_allocations(self) -> None:
        ids = [device.id for device in self.kubelet.view().resource(GPU).devices]
        if not ids:
            return
        async with channel(str(self.directory / "nvidia-gpu.sock")) as connection:
            client = PluginClient(connection)

            async def one() -> None:
                request = pb.AllocateRequest()
                request.container_requests.add(devices_ids=random.sample(ids, min(3, len(ids))))
                answer = await client.allocate(request)
                assert answer.container_responses[0].envs["NVIDIA_VISIBLE_DEVICES"]

            await asyncio.gather(*(one() for _ in range(50)))

    async def streams_come_and_go(self) -> None:
        async with channel(str(self.directory / "nvidia-gpu.sock")) as connection:
            client = PluginClient(connection)
            for _ in range(20):
                async with client.list_and_watch.open() as stream:
                    await stream.send_message(pb.Empty(), end=True)
                    assert await stream.recv_message() is not None
                    await stream.cancel()


ACTS = [
    Torture.restart_kubelet,
    Torture.restart_kubelet,
    Torture.drop_connections,
    Torture.good_reload,
    Torture.bad_reload,
    Torture.storm_of_reloads,
    Torture.remove_socket,
    Torture.xid,
    Torture.many_allocations,
    Torture.streams_come_and_go,
]


def open_files(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(link))
        except FileNotFoundError:
            continue
    return found


async def torture(directory: Path) -> None:
    (directory / "events").touch()
    (directory / "config.yaml").write_text("version: v1\n")
    environ = {
        "GPU_NODE_SIMULATE": "dgx-a100",
        "GPU_NODE_SIMULATE_EVENTS": str(directory / "events"),
    }
    async with AsyncExitStack() as stack:
        kubelet = await stack.enter_async_context(SimulatedKubelet(str(directory)))
        arguments = [f"--config-file={directory / 'config.yaml'}"]
        running = await stack.enter_async_context(plugin(directory, *arguments, environ=environ))
        it = Torture(directory, kubelet, running)
        await it.settle("the start")
        pid, files = running.process.pid, open_files(running.process.pid)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            act = random.choice(ACTS)
            it.acts[act.__name__] += 1
            await act(it)
            await it.settle(act.__name__)
            assert running.process.returncode is None
        await asyncio.sleep(2)
        await it.settle("the end")
        after = open_files(pid)
        assert len(after) <= len(files) + MOST_EXTRA_FILES, (files, after)
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        assert threads <= 3, threads
        assert sorted(p.name for p in directory.glob("*.sock")) == [
            "kubelet.sock",
            "nvidia-gpu.sock",
        ]
        resident = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]
        running.signal(signal.SIGTERM)
        assert await running.ended(2) == 0
        print(f"\n{sum(it.acts.values())} acts: {dict(it.acts)}")
        print(f"{it.restarts} restarts of the kubelet; resident at the end {resident} kB")
    assert not list(directory.glob("nvidia-*.sock"))


@pytest.mark.torture
def test_nothing_wears_out(tmp_path):
    seed = int(os.environ.get("TORTURE_SEED", str(time.time_ns() % 2**32)))
    print(f"\nTORTURE_SEED={seed}")
    random.seed(seed)
    run(torture(tmp_path), SECONDS + 120)
