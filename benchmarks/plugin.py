"""Speed and memory of ``nvidia-device-plugin``, each against a floor of the same run.

    python benchmarks/plugin.py [--quick]

Limits are those that the project sets itself; the last line tells how many hold.
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
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from measure import Report, cpu_seconds, resident

from gpu_device_plugin.config.model import AllocationPolicy, DeviceListStrategy
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import PluginClient, channel
from gpu_device_plugin.kubelet.transport import plugin_server
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.response import AllocationSettings
from gpu_device_plugin.plugin.service import ResourceService
from gpu_device_plugin.resources.model import Device, Resource
from gpu_device_plugin.resources.spreading import prefer_replicas

XID_79 = Ailment("XID 79", Severity.RECOVERABLE, first=0, last=0)
PROGRAM = (
    sys.executable,
    "-c",
    "from gpu_device_plugin.programs.device_plugin import main; main()",
)
PRINT_RESIDENT = """
import asyncio
for line in open("/proc/self/status"):
    if line.startswith("VmRSS:"):
        print(line.split()[1])
"""


def shared_resource(gpus: int, replicas: int) -> Resource:
    devices = tuple(
        Device(
            id=f"GPU-{n:08x}-0000-4000-8000-000000000000",
            index=str(n),
            paths=(f"/dev/nvidia{n}",),
            numa_node=n // 4,
            gpu_uuid=f"GPU-{n}",
            gpu_index=n,
            replicas=replicas,
        )
        for n in range(gpus)
    )
    return Resource("nvidia.com/gpu", devices)


def a_service(resource: Resource) -> ResourceService:
    settings = AllocationSettings(
        strategies=(DeviceListStrategy.ENVVAR,),
        by_index=False,
        pass_device_specs=False,
        dev_root="/",
    )
    return ResourceService(
        DeviceBoard(resource), settings, LinkedGpus(()), AllocationPolicy.DISTRIBUTED
    )


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await call()
    return (time.perf_counter() - begin) * 1000


async def interleaved(
    calls: dict[str, Callable[[], Awaitable[object]]], rounds: int
) -> dict[str, float]:
    """The median of each call in milliseconds; all are measured in turn, so load hits all."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(await timed(call))
    return {name: statistics.median(values) for name, values in times.items()}


async def rpcs(report: Report, rounds: int) -> None:
    """Allocate against PreStartContainer, which does nothing, on the same server."""
    for gpus, replicas, ids in ((8, 0, 1), (8, 1000, 1), (8, 1000, 100)):
        resource = shared_resource(gpus, replicas)
        with tempfile.TemporaryDirectory() as directory:
            server = plugin_server(a_service(resource))
            await server.start(f"{directory}/s")
            try:
                async with channel(f"{directory}/s") as connection:
                    client = PluginClient(connection)
                    wanted = list(resource.ids())[:: max(1, resource.size // ids)][:ids]
                    allocate = pb.AllocateRequest()
                    allocate.container_requests.add(devices_ids=wanted)
                    null = pb.PreStartContainerRequest(devices_ids=wanted)
                    got = await interleaved(
                        {
                            "null": partial(client.pre_start, null),
                            "allocate": partial(client.allocate, allocate),
                        },
                        rounds,
                    )
            finally:
                await server.stop()
        what = f"Allocate of {ids} of {gpus} GPUs x {replicas or 1}"
        floor = f"null RPC {got['null']:.3f} ms, Allocate {got['allocate']:.3f} ms"
        report.line(what, got["allocate"] / got["null"], "x", 1.25, floor)


def allocation(report: Report, rounds: int) -> None:
    """Preferred allocations of replicas, against merely collecting the ids that may be taken."""
    for gpus, replicas, size, limit in ((8, 1000, 4, 2.0), (16, 16384, 64, 100.0)):
        resource = shared_resource(gpus, replicas)
        ids = list(resource.ids())
        for policy in AllocationPolicy:
            prefer_replicas(resource, ids, [], 1, policy)
            times, floors = list[float](), list[float]()
            for _ in range(max(5, rounds * 8000 // len(ids))):
                begin = time.perf_counter()
                prefer_replicas(resource, ids, [], size, policy)
                middle = time.perf_counter()
                set(ids)
                times.append((middle - begin) * 1000)
                floors.append((time.perf_counter() - middle) * 1000)
            floor = f"a set of the ids {statistics.median(floors):.3f} ms"
            what = f"{policy} allocation of {size} of {len(ids):,} replicas"
            report.line(what, statistics.median(times), "ms", limit, floor)


async def lists(report: Report, rounds: int) -> None:
    """From nothing to a list at the other end, and from an event to the next list."""
    resource = shared_resource(16, 1000)
    build, change, floors = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            begin = time.perf_counter()
            service = a_service(resource)
            server = plugin_server(service)
            await server.start(f"{directory}/s")
            try:
                async with channel(f"{directory}/s") as connection:
                    client = PluginClient(connection)
                    async with client.list_and_watch.open() as stream:
                        await stream.send_message(pb.Empty(), end=True)
                        first = await stream.recv_message()
                        build.append((time.perf_counter() - begin) * 1000)
                        begin = time.perf_counter()
                        service.board.mark_unhealthy([resource.devices[7]], XID_79)
                        await stream.recv_message()
                        change.append((time.perf_counter() - begin) * 1000)
                        assert first is not None
                        begin = time.perf_counter()
                        pb.ListAndWatchResponse.FromString(first.SerializeToString())
                        floors.append((time.perf_counter() - begin) * 1000)
                        await stream.cancel()
            finally:
                await server.stop()
    floor = f"encoding and decoding alone {statistics.median(floors):.1f} ms"
    report.line(
        "list of 16 x 1,000 devices, built and sent", statistics.median(build), "ms", 50, floor
    )
    report.line("the same after a change of health", statistics.median(change), "ms", 50, floor)


@contextmanager
def program(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """The program on a simulated DGX, and how long it took to serve (milliseconds)."""
    with tempfile.TemporaryDirectory() as directory:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [
                *PROGRAM,
                "--simulate=dgx-a100",
                "--kubelet-socket=",
                f"--plugin-directory={directory}",
                *arguments,
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "serving resource=" in line:
                    break
            yield process, (time.perf_counter() - begin) * 1000
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait()


def interpreter(statement: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return (time.perf_counter() - begin) * 1000


def start(report: Report, rounds: int) -> None:
    starts, floors = [], []
    for _ in range(rounds):
        floors.append(interpreter("import asyncio"))
        with program() as (_, took):
            starts.append(took)
    bare = statistics.median(floors)
    floor = f"import asyncio {bare:.0f} ms"
    report.line(
        "start to first list, simulated DGX", statistics.median(starts), "ms", 4 * bare, floor
    )


def memory(report: Report, seconds: float) -> None:
    output = subprocess.run(
        [sys.executable, "-c", PRINT_RESIDENT], check=True, stdout=subprocess.PIPE
    ).stdout
    bare = int(output) / 1024
    floor = f"asyncio alone {bare:.1f} MiB"
    with program() as (process, _):
        time.sleep(1)
        idle = resident(process.pid)
        report.line("resident, idle, 8 GPUs", idle, "MiB", 36, floor)
        begin = cpu_seconds(process.pid)
        time.sleep(seconds)
        used = (cpu_seconds(process.pid) - begin) / seconds * 100
        report.line("CPU, idle", used, "%", 0.1, f"over {seconds:.0f} s")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(
            "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1000}]}}"
        )
        config.flush()
        with program(f"--config-file={config.name}") as (process, _):
            time.sleep(1)
            more = resident(process.pid) - idle
            report.line("8,000 devices add", more, "MiB", 12, f"to {idle:.1f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a first look")
    quick = parser.parse_args().quick
    report = Report()
    asyncio.run(rpcs(report, 300 if quick else 2000))
    allocation(report, 50 if quick else 500)
    asyncio.run(lists(report, 5 if quick else 30))
    start(report, 5 if quick else 15)
    memory(report, 10 if quick else 60)
    print(f"{report.checks - len(report.misses)} of {report.checks} limits hold")
    return 1 if report.misses else 0


if __name__ == "__main__":
    sys.exit(main())
