"""Memory and processor time of ``gpu-node agent`` while it is scraped.

    python benchmarks/agent.py [--seconds 60] [--profile dgx-a100] [--replicas 100]

Eight GPUs are shared among a hundred each; the label of the node is followed and labels are
published through a Kubernetes API (a stand-in with TLS), a simulated kubelet listens, and metrics
are scraped every 5 s. What the thread costs that waits for NVML's events is not in it: a few
microseconds four times a second. Last, the label is switched between two
configurations: time until the kubelet has the other devices and the labels are out.

The floor is a bare interpreter with an asyncio loop that does nothing but sleep for 5 s at a time;
it runs beside the agent.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from measure import cpu_seconds, resident
from support.agents import NONE, AgentStage, shared
from support.aio import until
from support.apiserver import ApiServer
from support.certificates import make_certificates
from support.programs import ProgramProcess
from support.serving import GPU
from support.web import fetch

from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

MOST_MEGABYTES = 80.0
MOST_CPU = 0.002
"""Share of one processor."""
SCRAPE_SECONDS = 5.0
SWITCHES = 10
LIMIT = 30.0
FLOOR = "import asyncio\nasync def work():\n    while True:\n        await asyncio.sleep(5)\nasyncio.run(work())"


@dataclass
class Usage:
    """What a process has used."""

    megabytes: float
    seconds: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        return cls(resident(pid), cpu_seconds(pid))


@asynccontextmanager
async def floor() -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", FLOOR)
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def port_of(process: ProgramProcess) -> int:
    await process.logged("serving HTTP")
    found = re.search(r"serving HTTPS? at \S*?:(\d+): ", process.log)
    assert found is not None
    return int(found[1])


async def scrape(port: int, seconds: float) -> list[float]:
    """Scrapes for so long; the milliseconds that each answer took."""
    times, end = list[float](), time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        reply = await fetch(port, "/metrics")
        assert reply.status == 200, reply.text
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(max(0.0, min(SCRAPE_SECONDS, end - time.monotonic())))
    return times


async def shows(stage: AgentStage, kubelet: SimulatedKubelet, replicas: int) -> None:
    size = 8 * replicas
    await kubelet.until(lambda view: view.resource(GPU).allocatable == size, "devices", LIMIT)
    await until(lambda: stage.published().get("gpu.replicas") == str(replicas), LIMIT)


async def switch(stage: AgentStage, kubelet: SimulatedKubelet, replicas: int) -> list[float]:
    """Milliseconds from the label to devices and labels."""
    times = list[float]()
    for number in range(SWITCHES):
        name, count = ("default", 1) if number % 2 == 0 else ("shared", replicas)
        began = time.perf_counter()
        stage.label(name)
        await shows(stage, kubelet, count)
        times.append((time.perf_counter() - began) * 1000)
    return times


async def measure(stage: AgentStage, given: argparse.Namespace) -> int:
    async with (
        floor() as bare,
        stage.running("--metrics-address=127.0.0.1:0", "--kube-api-qps=-1") as (kubelet, process),
    ):
        pid, port = process.process.pid, await port_of(process)
        await shows(stage, kubelet, given.replicas)
        await scrape(port, 1)
        before, before_bare = Usage.of(pid), Usage.of(bare)
        times = await scrape(port, given.seconds)
        after, after_bare = Usage.of(pid), Usage.of(bare)
        switches = await switch(stage, kubelet, given.replicas)
        end = Usage.of(pid)
        process.lines.clear()
    cpu = (after.seconds - before.seconds) / given.seconds
    cpu_bare = (after_bare.seconds - before_bare.seconds) / given.seconds
    megabytes = max(after.megabytes, end.megabytes)
    print(
        f"resident: {after.megabytes:.1f} MB, {end.megabytes:.1f} MB after {SWITCHES} switches, "
        f"limit {MOST_MEGABYTES:.0f}; floor {after_bare.megabytes:.1f} MB"
    )
    print(
        f"processor: {cpu:.3%} over {given.seconds:.0f} s, limit {MOST_CPU:.1%}; "
        f"floor {cpu_bare:.3%}"
    )
    print(f"scrape: median {statistics.median(times):.1f} ms, worst {max(times):.1f} ms")
    print(f"label to devices and labels: median {statistics.median(switches):.0f} ms", end=", ")
    print(f"worst {max(switches):.0f} ms")
    return int(megabytes > MOST_MEGABYTES or cpu > MOST_CPU)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--profile", default="dgx-a100")
    parser.add_argument("--replicas", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        with ApiServer(certificates=make_certificates(directory)) as api:
            stage = AgentStage(
                directory / "node",
                api,
                {
                    "GPU_NODE_SIMULATE": given.profile,
                    "GPU_NODE_SIMULATE_EVENTS": "",
                    "USE_NODE_FEATURE_API": "true",
                },
            )
            stage.swap(default=NONE, shared=shared(given.replicas))
            stage.label("shared")
            return asyncio.run(measure(stage, given))


if __name__ == "__main__":
    sys.exit(main())
