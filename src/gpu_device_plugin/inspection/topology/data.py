"""The topology as data for programs."""

from __future__ import annotations

import json
from typing import Any

from gpu_device_plugin.inspection.topology.choice import Choice, Division
from gpu_device_plugin.inspection.topology.groups import Group, find_groups
from gpu_device_plugin.inspection.topology.model import NEARNESS, Topology, level_score


def to_json(topology: Topology, choice: Choice | None) -> str:
    """The text of a JSON file; GPUs are numbered by NVML's index all over it."""
    return json.dumps(to_dict(topology, choice), indent=2, ensure_ascii=True) + "\n"


def to_dict(topology: Topology, choice: Choice | None) -> dict[str, Any]:
    """The JSON object."""
    root = find_groups(topology)
    return {
        "source": topology.source,
        "platform": topology.platform,
        "driverVersion": topology.driver_version,
        "resource": topology.resource,
        "gpus": [_gpu(topology, position) for position in range(topology.count)],
        "links": [
            {
                "gpus": topology.indices((pair.one, pair.other)),
                "link": pair.word,
                "ancestor": None if pair.level is None else pair.ancestor,
                "nvlinks": pair.nvlinks,
                "score": pair.score,
            }
            for pair in topology.pairs()
        ],
        "scores": [list(row) for row in topology.scores.rows],
        "groups": None if root is None else _group(topology, root),
        "choice": None if choice is None else _choice(topology, choice),
        "problems": list(topology.problems),
    }


def _gpu(topology: Topology, position: int) -> dict[str, Any]:
    gpu = topology.gpus[position]
    return {
        "index": gpu.index,
        "uuid": gpu.uuid,
        "model": gpu.name,
        "pci": gpu.sysfs_id or None,
        "numaNode": gpu.numa_node,
        "offered": position in topology.offered,
    }


def _group(topology: Topology, group: Group) -> dict[str, Any]:
    return {
        "link": None if group.level is None else NEARNESS[group.level].word,
        "score": level_score(group.level),
        "numaNode": group.numa_node,
        "gpus": topology.indices(group.gpus),
        "groups": [_group(topology, part) for part in group.members if isinstance(part, Group)],
    }


def _choice(topology: Topology, choice: Choice) -> dict[str, Any]:
    request = choice.request
    return {
        "size": request.size,
        "available": topology.indices(request.available),
        "required": topology.indices(request.required),
        "gpus": topology.indices(choice.chosen),
        "uuids": [topology.gpus[position].uuid for position in choice.chosen],
        "score": choice.score,
        **_division(topology, choice.division),
        "exact": choice.is_exact,
        "equals": [topology.indices(part) for part in choice.equals],
        "allEqualsKnown": choice.knows_all_equals,
        "rival": None if choice.rival is None else _division(topology, choice.rival),
    }


def _division(topology: Topology, division: Division) -> dict[str, Any]:
    return {
        "division": [
            {"gpus": topology.indices(part), "score": topology.scores.within(part)}
            for part in division.sets
        ],
        "total": division.total,
    }
