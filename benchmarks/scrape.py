"""What a scrape costs: milliseconds of CPU and series, and the memory that metrics take.

    PYTHONPATH=src python benchmarks/scrape.py

A plugin serves a simulated node without a kubelet; its metrics are made fifty times, and the
median counts. The floor is the same for a program that has nothing but its process to tell of.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.node import NodeReader
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.status.metrics.metrics import Metrics, Part
from gpu_device_plugin.status.reporter import Reporter

LIMIT_MS = 5.0
TIMES = 50
CONFIG = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}\n"
NODES = {
    "8 GPUs x 100 replicas": ("dgx-a100", 100),
    "16 GPUs": ("dgx-2", 1),
    "8 GPUs, MIG devices of 7 profiles": ("dgx-a100-mig", 1),
}
RESIDENT = """
import gpu_device_plugin.plugin.supervisor, gpu_device_plugin.programs.device_plugin
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4
before = resident()
import gpu_device_plugin.status.metrics.metrics
print(resident() - before)
"""


def median_ms(metrics: Metrics) -> float:
    """Of one scrape."""
    times = []
    for _ in range(TIMES):
        began = time.process_time()
        metrics.render()
        times.append(time.process_time() - began)
    return statistics.median(times) * 1000


async def measure(directory: Path, profile: str, replicas: int) -> tuple[float, int]:
    """Milliseconds and series of a node."""
    config = directory / "config.yaml"
    config.write_text(CONFIG % replicas if replicas > 1 else "version: v1\n")
    parsed = parse(Program.DEVICE_PLUGIN, [f"--config-file={config}"], {"MIG_STRATEGY": "mixed"})
    backend = SimulatedBackend.from_profile(profile)
    reader = NodeReader(lambda: load(parsed), lambda _: backend, CdiSettings())
    reporter = Reporter(Program.DEVICE_PLUGIN)
    metrics = Metrics(reporter, [Part.PLUGIN])
    supervisor = Supervisor(
        reader,
        KubeletSocket(""),
        environ={},
        socket_directory=str(directory),
        tell=metrics.hear,
    )
    reporter.observe = supervisor.observe
    running = asyncio.create_task(supervisor.run())
    while not reporter.readiness().ok:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)
    body = metrics.render().body
    result = median_ms(metrics), sum(line[:1] != b"#" for line in body.splitlines())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return result


def main() -> int:
    floor = median_ms(Metrics(Reporter("none"), []))
    misses = 0
    for name, (profile, replicas) in NODES.items():
        with tempfile.TemporaryDirectory() as directory:
            cost, series = asyncio.run(measure(Path(directory), profile, replicas))
        misses += cost > LIMIT_MS
        print(f"{name:36} {cost:6.2f} ms   {series:4d} series   floor {floor:.2f} ms")
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True
    )
    print(f"{'memory that metrics add to a plugin':36} {int(done.stdout) / 1024:6.1f} MiB")
    print(f"{len(NODES) - misses} of {len(NODES)} below {LIMIT_MS:g} ms")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
