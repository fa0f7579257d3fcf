"""Memory of ``config-manager``, and the time from a label's change to the signal.

    python benchmarks/config_manager.py [--changes 200]

Floors of the same run: a bare interpreter, one that has imported asyncio, and the time that the
signal alone takes. A kubeconfig is read, which in a cluster is not: PyYAML takes 1 MB.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from measure import resident
from support.apiserver import ApiServer
from support.profiles import Stage
from support.targets import counting

MOST_KILOBYTES = 25_600
MOST_MILLISECONDS = 50.0
RESIDENT = "print(next(line.split()[1] for line in open('/proc/self/status') if 'VmRSS' in line))"


def floor(statement: str) -> int:
    """Kilobytes of an interpreter after a statement."""
    code = f"{statement}\n{RESIDENT}"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stdout)


async def told(stage: Stage, count: int) -> None:
    while stage.target.count < count:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.0002)


async def measure(stage: Stage, changes: int) -> tuple[int, list[float], float]:
    """Memory at the end, milliseconds of each change, seconds until the first signal."""
    began = time.perf_counter()
    times = list[float]()
    async with stage.running() as process:
        await told(stage, 1)
        first = time.perf_counter() - began
        for number in range(changes):
            start = time.perf_counter()
            stage.label("ab"[number % 2])
            await told(stage, number + 2)
            times.append((time.perf_counter() - start) * 1000)
        memory = round(resident(process.process.pid) * 1024)
        process.lines.clear()
    return memory, times, first


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures config-manager.")
    parser.add_argument("--changes", type=int, default=200)
    changes = parser.parse_args().changes
    with tempfile.TemporaryDirectory() as path, ApiServer() as api:
        directory = Path(path)
        with counting("benchmark-target", directory) as target:
            stage = Stage(directory, api, target, "benchmark-target")
            stage.label("b")
            memory, times, first = asyncio.run(measure(stage, changes))
    times.sort()
    print(f"resident: {memory} kB, limit {MOST_KILOBYTES}; floors: interpreter {floor('pass')} kB,")
    print(f"  with asyncio {floor('import asyncio')} kB")
    print(f"start to first signal: {first * 1000:.0f} ms")
    median, worst = statistics.median(times), times[-1]
    print(
        f"label to signal: median {median:.1f} ms, limit {MOST_MILLISECONDS:.0f}, worst {worst:.1f}"
    )
    return int(memory > MOST_KILOBYTES or median > MOST_MILLISECONDS)


if __name__ == "__main__":
    sys.exit(main())
