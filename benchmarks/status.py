"""What it costs to look at a plugin: probes, status, metrics, page; against a handler that does nothing.

    python benchmarks/status.py [--quick]

The node has 8 GPUs with 100 replicas each, half of which pods hold. Limits are those that the
project sets itself; the last line tells how many hold.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from measure import Report, cpu_seconds, resident  # noqa: E402
from support.web import Client, client  # noqa: E402 - the tests' own client

from gpu_device_plugin.config.grammar import parse  # noqa: E402
from gpu_device_plugin.config.load import load  # noqa: E402
from gpu_device_plugin.config.options import Program  # noqa: E402
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend  # noqa: E402
from gpu_device_plugin.plugin.cdi_settings import CdiSettings  # noqa: E402
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket  # noqa: E402
from gpu_device_plugin.plugin.node import NodeReader  # noqa: E402
from gpu_device_plugin.plugin.supervisor import Supervisor  # noqa: E402
from gpu_device_plugin.status import endpoints  # noqa: E402
from gpu_device_plugin.status.collect import Holders  # noqa: E402
from gpu_device_plugin.status.endpoints import Page, make_routes  # noqa: E402
from gpu_device_plugin.status.metrics.metrics import PARTS, Metrics  # noqa: E402
from gpu_device_plugin.status.model import Holder, Pods  # noqa: E402
from gpu_device_plugin.status.page.page import CONTENT_SECURITY_POLICY, render_page  # noqa: E402
from gpu_device_plugin.status.reporter import Reporter  # noqa: E402
from gpu_device_plugin.web.address import Address  # noqa: E402
from gpu_device_plugin.web.messages import Response, Route  # noqa: E402
from gpu_device_plugin.web.server import WebServer  # noqa: E402

CONFIG = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 100}]}}\n"
PLUGIN = "from gpu_device_plugin.programs.device_plugin import main; main()"
PATHS = {"/readyz": 2.0, "/metrics": 5.0, "/status.json": 10.0, "/": 20.0}
"""Milliseconds that an answer may take."""
LARGEST = {"/": 50.0}
"""KiB that an answer may have, compressed."""
SCRAPE_SECONDS = 5.0


@asynccontextmanager
async def looked_at(directory: str) -> AsyncIterator[int]:
    """A plugin on a simulated DGX in this process; the port at which it can be looked at."""
    config = Path(directory) / "config.yaml"
    config.write_text(CONFIG)
    parsed = parse(Program.DEVICE_PLUGIN, [f"--config-file={config}"], {})
    backend = SimulatedBackend.from_profile("dgx-a100")
    reader = NodeReader(lambda: load(parsed), lambda _: backend, CdiSettings())
    supervisor = Supervisor(reader, KubeletSocket(""), environ={}, socket_directory=directory)
    holders: Holders = {
        ("nvidia.com/gpu", gpu.uuid): [
            Holder("research", f"train-{gpu.index}-{n}", "main", (n,)) for n in range(50)
        ]
        for gpu in backend.read().gpus
    }
    reporter = Reporter(
        Program.DEVICE_PLUGIN,
        node="node-1",
        observe=supervisor.observe,
        pods=lambda: (Pods(asked=True, time=time.time()), holders),
    )
    routes = make_routes(
        reporter,
        ("metrics", "probes", "status"),
        metrics=Metrics(reporter, PARTS[Program.DEVICE_PLUGIN]),
        page=Page(render_page, CONTENT_SECURITY_POLICY),
    )
    routes["/null"] = Route(lambda _: Response(200, body=b"ok"))
    running = asyncio.create_task(supervisor.run())
    while not reporter.readiness().ok:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)
    async with WebServer(Address("127.0.0.1", 0), routes) as web:
        await web.is_listening.wait()
        yield web.port
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def timed(connection: Client, path: str) -> tuple[float, int]:
    begin = time.perf_counter()
    reply = await connection.get(path, {"Accept-Encoding": "gzip"})
    took = (time.perf_counter() - begin) * 1000
    assert reply.status == 200, reply
    return took, len(reply.body)


async def answers(report: Report, rounds: int) -> None:
    """Each path in turn on one connection, so that load hits all of them."""
    # Each answer is to be made, none remembered.
    endpoints.FRESH_SECONDS = 0.0
    times: dict[str, list[float]] = {path: [] for path in ("/null", *PATHS)}
    sizes = dict.fromkeys(times, 0)
    with tempfile.TemporaryDirectory() as directory:
        async with looked_at(directory) as port, client(port) as connection:
            for _ in range(rounds):
                for path, taken in times.items():
                    took, sizes[path] = await timed(connection, path)
                    taken.append(took)
    null = statistics.median(times["/null"])
    for path, limit in PATHS.items():
        took = statistics.median(times[path])
        report.line(f"GET {path}", took, "ms", limit, f"a handler that does nothing {null:.2f} ms")
    for path, limit in LARGEST.items():
        report.line(f"size of {path}, compressed", sizes[path] / 1024, "KiB", limit)


@asynccontextmanager
async def started(directory: str, *options: str) -> AsyncIterator[tuple[int, str]]:
    """The program: its number, and the line that tells that it serves."""
    config = Path(directory) / "config.yaml"
    config.write_text(CONFIG)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PLUGIN, "--simulate=dgx-a100", "--kubelet-socket="),
        *(f"--config-file={config}", f"--plugin-directory={directory}", *options),
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    wanted = b"serving HTTP at" if options else b"serving resource="
    try:
        line = b""
        while wanted not in line:
            line = await process.stderr.readline()
            if not line:
                raise RuntimeError("the program has ended")
        yield process.pid, line.decode()
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()


async def program(report: Report, seconds: float) -> None:
    """Memory and CPU of the real program, without a port and scraped as Prometheus does."""
    with tempfile.TemporaryDirectory() as directory:
        async with started(directory) as (pid, _):
            await asyncio.sleep(1)
            bare = resident(pid)
        async with started(directory, "--metrics-address=127.0.0.1:0") as (pid, line):
            port = int(line.partition("127.0.0.1:")[2].partition(":")[0])
            async with client(port) as connection:
                while (await connection.get("/readyz")).status != 200:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.1)
                for path in PATHS:
                    await timed(connection, path)
                begin = cpu_seconds(pid)
                for _ in range(max(1, int(seconds / SCRAPE_SECONDS))):
                    await timed(connection, "/metrics")
                    await timed(connection, "/readyz")
                    await asyncio.sleep(SCRAPE_SECONDS)
                used = (cpu_seconds(pid) - begin) / seconds * 100
                more = resident(pid) - bare
    report.line("resident memory that the port adds", more, "MiB", 16, f"to {bare:.1f} MiB")
    report.line("CPU, scraped and probed every 5 s", used, "%", 0.2, f"over {seconds:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first look")
    quick = parser.parse_args().quick
    report = Report()
    asyncio.run(answers(report, 50 if quick else 500))
    asyncio.run(program(report, 10 if quick else 60))
    print(f"{report.checks - len(report.misses)} of {report.checks} limits hold")
    return 1 if report.misses else 0


if __name__ == "__main__":
    sys.exit(main())
