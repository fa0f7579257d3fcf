"""Groups of GPUs that are near each other: boards, switches, host bridges, NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gpu_device_plugin.inspection.topology.model import NEARNESS, SYSTEM, Topology

IsNear = Callable[[int, int], bool]
"""Asked for two GPUs, the one with the smaller position first."""


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs, some of them in smaller groups, that meet at one place."""

    members: tuple[Group | int, ...]
    """Smaller groups, and GPUs by position that are in none; by their first GPU."""
    level: int | None
    """NVML's level at which they meet; None if that is not known."""
    numa_node: int | None = None
    """The NUMA node that all of them are on, unless that holds for a larger group already."""

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
    for level in sorted(NEARNESS):
        if level == SYSTEM:
            members = _joined(topology, members, None, _on_one_node(topology, members))
        members = _joined(topology, members, level, _within(topology, level))
    whole = _joined(topology, members, None, lambda _one, _other: True)[0]
    return whole if isinstance(whole, Group) else None


def _within(topology: Topology, level: int) -> IsNear:
    return lambda one, other: topology.levels.get((one, other), level + 1) <= level


def _on_one_node(topology: Topology, members: Sequence[Group | int]) -> IsNear:
    nodes = _nodes(topology, members)
    return lambda one, other: nodes[one] is not None and nodes[one] == nodes[other]


def _nodes(topology: Topology, members: Sequence[Group | int]) -> list[int | None]:
    """For each GPU the NUMA node of its group, if it has only one."""
    nodes: list[int | None] = [None] * topology.count
    for member in members:
        node = _common_node(topology, gpus_of(member))
        for gpu in gpus_of(member):
            nodes[gpu] = node
    return nodes


def _common_node(topology: Topology, gpus: Iterable[int]) -> int | None:
    found = {topology.gpus[gpu].numa_node for gpu in gpus}
    return found.pop() if len(found) == 1 else None


def _joined(
    topology: Topology,
    members: list[Group | int],
    level: int | None,
    is_near: IsNear,
) -> list[Group | int]:
    """Joins all members between which any two GPUs are near."""
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
    ordered = sorted(members, key=lambda member: min(gpus_of(member)))
    node = _common_node(topology, (gpu for member in ordered for gpu in gpus_of(member)))
    if node is not None:
        ordered = [
            member if isinstance(member, int) else replace(member, numa_node=None)
            for member in ordered
        ]
    return Group(tuple(ordered), level, node)
