"""How long the status page takes, and how large it is, for 8 GPUs in 100 replicas each.

Half of the replicas are held, each by a pod of its own. The floor, taken in the same run, is to
escape and join the texts that are on the page anyway. The goals are 20 ms and 50 kB.

    PYTHONPATH=src python benchmarks/page.py [RUNS]
"""

from __future__ import annotations

import gzip
import html
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from gpu_device_plugin.status.model import (
    SCHEMA,
    Check,
    Configuration,
    DeviceStatus,
    GpuStatus,
    Hardware,
    Holder,
    LinkStatus,
    LogEvent,
    NodeStatus,
    Pods,
    ResourceStatus,
    Setting,
)
from gpu_device_plugin.status.page.page import render_page

GOAL_MS, GOAL_KB = 20.0, 50.0
GPUS, REPLICAS = 8, 100
NOW = 1764382586.0
NVLINKS = 12


def holders(chance: random.Random) -> tuple[Holder, ...]:
    """Pods as deployments name them."""
    return tuple(
        Holder(
            "inference",
            f"chat-api-{chance.randrange(16**9):09x}-{chance.randrange(36**4):05x}",
            "server",
            (number,),
        )
        for number in sorted(chance.sample(range(REPLICAS), REPLICAS // 2))
    )


def a_status() -> NodeStatus:
    chance = random.Random(1)
    uuids = [f"GPU-{n:08x}-5d4a-5f6b-9c3e-{n:012x}" for n in range(GPUS)]
    devices = tuple(
        DeviceStatus(
            id=uuid,
            index=str(n),
            gpu_uuid=uuid,
            gpu_index=n,
            mig=False,
            replicas=REPLICAS,
            numa_node=n // 4,
            healthy=True,
            holders=holders(chance),
        )
        for n, uuid in enumerate(uuids)
    )
    gpus = tuple(
        GpuStatus(
            index=n,
            uuid=uuid,
            name="NVIDIA A100-SXM4-80GB",
            memory_bytes=80 << 30,
            pci_bus_id=f"00000000:{16 * n + 7:02X}:00.0",
            numa_node=n // 4,
            compute_capability="8.0",
            mig_enabled=False,
            lost="",
        )
        for n, uuid in enumerate(uuids)
    )
    pairs = [(a, b) for a in range(GPUS) for b in range(a + 1, GPUS)]
    # Half of the pairs have NVLinks, so that the picture has many lines.
    links = tuple(
        LinkStatus(a, b, *(("NV12", NVLINKS) if (a + b) % 2 else ("SYS", 0))) for a, b in pairs
    )
    resource = ResourceStatus(
        name="nvidia.com/gpu",
        sharing="time-slicing",
        state="registered",
        registered=True,
        streams=1,
        capacity=GPUS * REPLICAS,
        allocatable=GPUS * REPLICAS,
        in_use=GPUS * REPLICAS // 2,
        single=True,
        devices=devices,
    )
    return NodeStatus(
        schema=SCHEMA,
        program="nvidia-device-plugin",
        version="0.19.3",
        node="gpu-node-07.example.com",
        time=NOW,
        started=NOW - 1e6,
        live=Check(ok=True),
        ready=Check(ok=True),
        hardware=Hardware(
            "nvml", "", "550.127.05", "12.4", "", "watching", gpus, links=links, links_known=True
        ),
        resources=(resource,),
        pods=Pods(asked=True, time=NOW - 2),
        configuration=Configuration(
            "/config/config.yaml",
            "",
            "0123456789abcdef",
            tuple(
                Setting(f"flags.plugin.someSetting{n}", '"a value"', "ENV" if n < 5 else "")
                for n in range(25)
            ),
        ),
        events=tuple(
            LogEvent(
                NOW - n,
                "info",
                "plugin.served",
                f"registered resource=nvidia.com/gpu endpoint=nvidia-gpu.sock streams={n}",
            )
            for n in range(100)
        ),
    )


def texts(value: Any) -> Iterator[str]:
    """All texts of a status."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    status = a_status()
    words = list(texts(asdict(status)))
    page = render_page(status)
    taken, floors = list[float](), list[float]()
    for _ in range(runs):
        floors.append(milliseconds(lambda: "".join(map(html.escape, words)).encode()))
        taken.append(milliseconds(lambda: render_page(status)))
    floor, size = statistics.median(floors), len(page) / 1000
    unpressed = f"{len(gzip.compress(page, 3)) / 1000:.1f} kB compressed"
    failed = False
    for name, value, goal, note in (
        ("page, median ms", statistics.median(taken), GOAL_MS, f"floor {floor:.2f} ms"),
        ("page, slowest ms", max(taken), 2 * GOAL_MS, f"floor {max(floors):.2f} ms"),
        ("page, kB", size, GOAL_KB, unpressed),
    ):
        good = value <= goal
        failed |= not good
        print(f"{'ok  ' if good else 'MISS'} {name:<18} {value:8.2f}  goal {goal:6.2f}   {note}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
