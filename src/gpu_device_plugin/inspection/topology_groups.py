"""Groups of GPUs that are near each other: boards, switches, host bridges, NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

from gpu_device_plugin.inspection.topology_model import NEARNESS, SYSTEM, Topology


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs, some of them in smaller groups, that meet at one place."""

    members: tuple[Group | int, ...]
    """Smaller groups, and GPUs by position that are in none; by their first GPU."""
    level: int | None
    """NVML's level at which they meet; None if that is not known."""
    numa_node: int | None = None
    """The NUMA node that all of them are on."""

    @property
    def gpus(self) -> tuple[int, ...]:
        """All GPUs, in the order in which they are shown: those of a smaller group together."""
        return tuple(gpu for member in self.members for gpu in gpus_of(member))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Group]]:
        """This group and all smaller ones with their depths, each before those within it."""
        yield depth, self
        for member in self.members:
            if isinstance(member, Group):
                yield from member.walk(depth + 1)


def gpus_of(member: Group | int) -> tuple[int, ...]:
    """The GPUs of a group, or the GPU."""
    return (member,) if isinstance(member, int) else member.gpus


def find_groups(topology: Topology) -> Group | None:
    """The group of all GPUs with the smaller ones in it; None if there are less than two GPUs.

    Whatever is at most so far apart, directly or by way of others, is in one group. The NUMA
    nodes count after the levels that are within one.
    """
    if topology.count < 2:
        return None
    members: list[Group | int] = list(range(topology.count))

    def within(level: int) -> Callable[[int, int], bool]:
        return lambda one, other: topology.levels.get((one, other), level + 1) <= level

    for level in sorted(NEARNESS):
        if level == SYSTEM:
            members = _joined(topology, members, None, lambda a, b: _same_node(topology, a, b))
        members = _joined(topology, members, level, within(level))
    whole = _joined(topology, members, None, lambda _one, _other: True)[0]
    return whole if isinstance(whole, Group) else None


def _same_node(topology: Topology, one: int, other: int) -> bool:
    node = topology.gpus[one].numa_node
    return node is not None and node == topology.gpus[other].numa_node


def _joined(
    topology: Topology,
    members: list[Group | int],
    level: int | None,
    is_near: Callable[[int, int], bool],
) -> list[Group | int]:
    """Joins what is near, which is asked for two GPUs with the smaller position first."""
    place = {gpu: number for number, member in enumerate(members) for gpu in gpus_of(member)}
    for one, other in combinations(range(topology.count), 2):
        if place[one] != place[other] and is_near(one, other):
            old, new = place[other], place[one]
            place = {gpu: new if number == old else number for gpu, number in place.items()}
    parts = dict[int, list[Group | int]]()
    for member in members:
        parts.setdefault(place[gpus_of(member)[0]], []).append(member)
    joined = [_group(topology, part, level) for part in parts.values()]
    return sorted(joined, key=lambda member: min(gpus_of(member)))


def _group(topology: Topology, members: list[Group | int], level: int | None) -> Group | int:
    if len(members) == 1:
        return members[0]
    ordered = tuple(sorted(members, key=lambda member: min(gpus_of(member))))
    nodes = {topology.gpus[gpu].numa_node for member in ordered for gpu in gpus_of(member)}
    return Group(ordered, level, nodes.pop() if len(nodes) == 1 else None)
