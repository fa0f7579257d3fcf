"""Preferred allocation of replicas and MIG devices: from the least used device, or the most.

The order is that of k8s-device-plugin v0.20.0 (internal/rm/allocate.go): by how much of a
device is taken, then by how often this very call has picked it. What is left undecided there is
decided here by the use of the whole GPU, then by index, so that picks spread over (or pack onto)
physical GPUs and come out the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.model import AllocationPolicy
from gpu_device_plugin.errors import RequestError
from gpu_device_plugin.resources.model import Device, Resource


@dataclass(slots=True)
class _Candidate:
    """A device with the ids that can still be given away."""

    order: int
    device: Device
    free: list[str]
    taken: int
    picked: int = 0


def prefer_replicas(
    resource: Resource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    policy: AllocationPolicy = AllocationPolicy.DISTRIBUTED,
) -> list[str]:
    """The ids to take: all required ones as they are, then as many more as are needed.

    Args:
        resource: the resource in question.
        available: ids that may be taken; unknown ones do not count.
        required: ids that have to be in the answer; repeated ones count once.
        size: how many ids are asked for.
        policy: whether to spread over devices or to fill them one by one.

    Raises:
        RequestError: there are not enough ids.
    """
    required = list(dict.fromkeys(required))
    needed = size - len(required)
    wanted = set(available).difference(required)
    candidates = list[_Candidate]()
    use_of_gpu = dict[str, int]()
    for order, (device, ids) in enumerate(resource.ids_by_device):
        free = [i for i in ids if i in wanted]
        taken = len(ids) - len(free)
        use_of_gpu[device.gpu_uuid] = use_of_gpu.get(device.gpu_uuid, 0) + taken
        if free:
            candidates.append(_Candidate(order, device, free, taken))
    free_ids = sum(len(c.free) for c in candidates)
    if needed > free_ids:
        raise RequestError(
            f"not enough devices of {resource.name} are available: "
            f"{needed} are needed, {free_ids} are there"
        )
    if needed > 0:
        share = _pack if policy is AllocationPolicy.PACKED else _spread
        share(candidates, use_of_gpu, needed)
    return [*required, *(i for c in candidates for i in c.free[: c.picked])]


def _spread(candidates: list[_Candidate], use_of_gpu: dict[str, int], needed: int) -> None:
    """Raises all devices to a common level of use, then gives the rest one by one."""
    level = _common_level(candidates, needed)
    for candidate in candidates:
        candidate.picked = max(0, min(level - candidate.taken, len(candidate.free)))
        use_of_gpu[candidate.device.gpu_uuid] += candidate.picked
        needed -= candidate.picked
    open_ones = [c for c in candidates if c.taken <= level and c.picked < len(c.free)]
    for _ in range(needed):
        best = min(open_ones, key=lambda c: (c.picked, use_of_gpu[c.device.gpu_uuid], c.order))
        open_ones.remove(best)
        best.picked += 1
        use_of_gpu[best.device.gpu_uuid] += 1


def _common_level(candidates: list[_Candidate], needed: int) -> int:
    """The highest level to which all devices can be filled with what is needed."""
    low, high = 0, max(c.taken + len(c.free) for c in candidates)
    while low < high:
        middle = (low + high + 1) // 2
        cost = sum(max(0, min(middle - c.taken, len(c.free))) for c in candidates)
        if cost <= needed:
            low = middle
        else:
            high = middle - 1
    return low


def _pack(candidates: list[_Candidate], use_of_gpu: dict[str, int], needed: int) -> None:
    """Fills the most used device, then the next; a device in use stays the most used one."""
    open_ones = list(candidates)
    while needed > 0:
        best = min(open_ones, key=lambda c: (-c.taken, -use_of_gpu[c.device.gpu_uuid], c.order))
        open_ones.remove(best)
        best.picked = min(needed, len(best.free))
        use_of_gpu[best.device.gpu_uuid] += best.picked
        needed -= best.picked
