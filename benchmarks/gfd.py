"""How soon gpu-feature-discovery has labelled a node, and what it costs while it runs.

    python benchmarks/gfd.py [--profile dgx-a100-mig] [--runs 7] [--passes 20]

Start: from the start of the process until the labels are out (median and worst). Memory: resident
after the first pass. Idle: processor time of a pass, as a share of the default interval of a
minute. The floor is a bare interpreter with an asyncio loop that writes a file, then sleeps and
writes again as often; it is measured in turn with the program.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from measure import cpu_seconds, resident
from support.apiserver import ApiServer
from support.certificates import make_certificates

PROGRAM = "from gpu_device_plugin.programs.gpu_feature_discovery import main; main()"
FLOOR = """
import asyncio, os, sys
async def work():
    while True:
        with open(sys.argv[1] + '.new', 'w') as file:
            file.write('nvidia.com/gpu.count=8\\n')
        os.replace(sys.argv[1] + '.new', sys.argv[1])
        await asyncio.sleep(float(sys.argv[2]))
asyncio.run(work())
"""
INTERVAL = 60.0
LIMITS = {"file": (0.3, 40.0), "NodeFeature": (math.inf, 60.0)}
"""Seconds to the first labels and MB that are allowed."""
FLOOR_SECONDS = 0.065
"""The floor on a machine at rest; on one that is slower or busy the limit grows with it."""
IDLE_LIMIT = 0.0005
OBJECT = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures/nvidia-features-for-node1"


@dataclass
class Result:
    """What was measured of one kind of run."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    cpu_of_pass: float = 0.0


@contextmanager
def process(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.terminate()


def first_labels(command: list[str], is_out: Callable[[], bool], result: Result) -> None:
    began = time.perf_counter()
    with process(command) as running:
        while not is_out():
            time.sleep(0.0005)
            if running.poll() is not None:
                sys.exit(f"ended with {running.returncode}: {' '.join(command[:3])}")
        result.seconds.append(time.perf_counter() - began)
        time.sleep(0.2)
        result.megabytes.append(resident(running.pid))


def passes(command: list[str], is_out: Callable[[], bool], count: int) -> float:
    """Processor seconds of one pass."""
    with process(command) as running:
        while not is_out():
            time.sleep(0.005)
        start = cpu_seconds(running.pid)
        time.sleep(count * 0.2)
        return (cpu_seconds(running.pid) - start) / count


def report(name: str, result: Result, floor: Result) -> bool:
    median, worst = statistics.median(result.seconds), max(result.seconds)
    memory, idle = max(result.megabytes), result.cpu_of_pass / INTERVAL
    print(
        f"{name:12} {median * 1000:5.0f} ms (worst {worst * 1000:4.0f})  {memory:5.1f} MB  "
        f"{result.cpu_of_pass * 1000:5.2f} ms CPU a pass: {idle:.4%} of a minute"
    )
    if name not in LIMITS:
        return True
    seconds, megabytes = LIMITS[name]
    seconds *= max(1.0, statistics.median(floor.seconds) / FLOOR_SECONDS)
    return median <= seconds and memory <= megabytes and idle <= IDLE_LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", default="dgx-a100-mig")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--passes", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with ApiServer(certificates=make_certificates(directory)) as api:
            return measure(given, directory, api)


def measure(given: argparse.Namespace, directory: Path, api: ApiServer) -> int:
    file = directory / "gfd"
    python = [sys.executable, "-c"]
    gfd = [*python, PROGRAM, f"--simulate={given.profile}", "--mig-strategy=mixed"]
    to_file = [*gfd, "--use-node-feature-api=false", f"--output-file={file}"]
    kubeconfig = api.kubeconfig(directory)
    to_api = [*gfd, f"--kubeconfig={kubeconfig}", "--node-name=node1", "--namespace=gpu"]
    floor = [*python, FLOOR, str(file)]
    often = "--sleep-interval=200ms"

    def is_written() -> bool:
        return file.exists()

    def is_published() -> bool:
        return OBJECT in api.store.objects

    kinds: dict[str, tuple[list[str], list[str], Callable[[], bool]]] = {
        "floor": ([*floor, "60"], [*floor, "0.2"], is_written),
        "file": (to_file, [*to_file, often], is_written),
        "NodeFeature": (to_api, [*to_api, often, "--kube-api-qps=-1"], is_published),
    }
    results = {name: Result() for name in kinds}

    def clear() -> None:
        file.unlink(missing_ok=True)
        api.store.objects.clear()

    for _ in range(given.runs):
        for name, (command, _, is_out) in kinds.items():
            clear()
            first_labels(command, is_out, results[name])
    for name, (_, command, is_out) in kinds.items():
        clear()
        results[name].cpu_of_pass = passes(command, is_out, given.passes)
    fine = [report(name, result, results["floor"]) for name, result in results.items()]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
