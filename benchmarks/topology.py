"""How long preferred allocation takes, for every size and many kinds of machines.

    PYTHONPATH=src python benchmarks/topology.py [--requests 200] [--machine NAME] [--cpu]

A line for each machine and size: milliseconds of the first request for that size to a new
allocator, and the median, 99th percentile and maximum of random requests (any subset in any
order, any required GPUs). The floor is a request that is answered without searching, measured
in the same way between the others.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from itertools import combinations

from gpu_device_plugin.resources.topology import PairScores, TopologyAllocator

CUBE_MESH = "01122000 10210200 12020010 21200001 20000112 02001021 00101202 00012120"
"""NVLinks between every two GPUs of a DGX-1 with V100."""

Groups = dict[int, list[int]]


def machine(count: int, groups: Groups, links: str = "") -> PairScores:
    """GPUs on different CPUs, but for groups of successive ones that share a level.

    Args:
        count: number of GPUs.
        groups: for each NVML common-ancestor level the sizes of the groups, repeated in turn.
        links: NVLinks of every GPU with every other, one digit each.
    """
    levels: dict[tuple[int, int], int | None] = dict.fromkeys(combinations(range(count), 2), 50)
    for level in sorted(groups, reverse=True):
        start, turn = 0, 0
        while start < count:
            end = start + groups[level][turn % len(groups[level])]
            levels.update(dict.fromkeys(combinations(range(start, min(end, count)), 2), level))
            start, turn = end, turn + 1
    rows = links.split()
    nvlinks = {pair: int(rows[pair[0]][pair[1]]) for pair in levels} if rows else {}
    return PairScores.from_links(count, levels, nvlinks)


def irregular(count: int, values: Sequence[int]) -> PairScores:
    """Scores without any pattern."""
    choice, rows = random.Random(count), [[0] * count for _ in range(count)]
    for one, other in combinations(range(count), 2):
        rows[one][other] = rows[other][one] = choice.choice(values)
    return PairScores(tuple(map(tuple, rows)))


MACHINES: dict[str, Callable[[], PairScores]] = {
    "k80x2": lambda: machine(2, {10: [2]}),
    "t4x4": lambda: machine(4, {40: [2]}),
    "v100x8 (DGX-1)": lambda: machine(8, {10: [2], 30: [4]}, CUBE_MESH),
    "a100x8": lambda: machine(8, {20: [2]}),
    "h100x8, b200x8": lambda: machine(8, {40: [4]}),
    "v100x16 (DGX-2)": lambda: machine(16, {10: [2], 20: [4], 40: [8]}),
    "16 on 2 sockets": lambda: machine(16, {40: [8]}),
    "16 on 4 switches": lambda: machine(16, {10: [4], 40: [8]}),
    "16 on 8 switches": lambda: machine(16, {10: [2], 40: [8]}),
    "16 unevenly": lambda: machine(16, {10: [4, 2, 1, 1, 3, 3, 1, 1], 40: [8]}),
    "16 all alike": lambda: machine(16, {40: [16]}),
    "10 irregular": lambda: irregular(10, [10, 20, 110, 220]),
    "16 irregular, many ties": lambda: irregular(16, [10, 20]),
    "16 irregular": lambda: irregular(16, range(1900)),
    "32 on 4 sockets": lambda: machine(32, {40: [8]}),
    "32 on 4 switches": lambda: machine(32, {10: [8], 40: [16]}),
    "32 on 8 switches": lambda: machine(32, {10: [4], 40: [16]}),
    "64 on 2 sockets": lambda: machine(64, {40: [32]}),
    "64 on 8 switches": lambda: machine(64, {10: [8], 40: [32]}),
    "64 irregular": lambda: irregular(64, range(1900)),
}


def timed(
    clock: Callable[[], float],
    allocator: TopologyAllocator,
    order: list[int],
    required: list[int],
    size: int,
) -> float:
    """Milliseconds of a request."""
    start = clock()
    allocator.prefer(order, required, size)
    return (clock() - start) * 1e3


def percentiles(samples: list[float]) -> str:
    samples.sort()
    picked = samples[len(samples) // 2], samples[int(len(samples) * 0.99)], samples[-1]
    return "".join([f"{each:9.3f}" for each in picked])


def measure(
    name: str,
    scores: PairScores,
    requests: int,
    clock: Callable[[], float],
    floor: list[float],
) -> None:
    choice, count = random.Random(name), scores.count
    first = {
        size: timed(clock, TopologyAllocator(scores), list(range(count)), [], size)
        for size in range(1, count + 1)
    }
    allocator = TopologyAllocator(scores)
    start = clock()
    ready = allocator.prepare()
    note = "" if ready else ", not to its end"
    print(f"{name}: prepared in {clock() - start:.3f} s{note}")
    print(f"{'size':>6}{'first':>9}{'p50':>9}{'p99':>9}{'max':>9}  ms")
    everything = list[float]()
    for size in range(1, count + 1):
        samples = list[float]()
        for _ in range(requests):
            # Half of the requests come while all GPUs are free, which takes longest.
            free = count if choice.random() < 0.5 else choice.randint(size, count)
            order = choice.sample(range(count), free)
            required = choice.sample(order, min(size, choice.choice([0, 0, 1, 2, 4])))
            samples.append(timed(clock, allocator, order, required, size))
            floor.append(timed(clock, allocator, [], [], 0))
        everything += samples
        print(f"{size:6}{first[size]:9.3f}{percentiles(samples)}")
    print(f"{'all':>6}{max(first.values()):9.3f}{percentiles(everything)}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Times preferred allocation.")
    parser.add_argument("--requests", type=int, default=200, help="for each size")
    parser.add_argument("--machine", default="", help="part of a name; all without")
    parser.add_argument("--cpu", action="store_true", help="count CPU time, on busy machines")
    options = parser.parse_args()
    clock = time.thread_time if options.cpu else time.perf_counter
    floor = list[float]()
    for name, make in MACHINES.items():
        if options.machine in name:
            measure(name, make(), options.requests, clock, floor)
    print(f"{'floor':>6}{'':9}{percentiles(floor)}")


if __name__ == "__main__":
    main()
