"""What is said about a topology, in sentences that the text and the picture have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gpu_device_plugin.config.text import count, one_line
from gpu_device_plugin.inspection.topology.choice import Choice, Division
from gpu_device_plugin.inspection.topology.groups import Group
from gpu_device_plugin.inspection.topology.model import (
    NEARNESS,
    NVLINK_SCORE,
    UNKNOWN,
    Topology,
    level_score,
)
from gpu_device_plugin.inspection.topology.select import ranges

SHOWN_EQUALS = 3
"""Sets named of those that are as good as the chosen one."""

TIMES = "\N{MULTIPLICATION SIGN}"

PREFERRED = "preferred"
"""What the line with the answer begins with."""


def headline(topology: Topology) -> str:
    """What the node has: number and names of GPUs, the driver, and where this is from."""
    models = Counter(one_line(gpu.name) for gpu in topology.gpus)
    words = [f"{number} {TIMES} {name}" for name, number in models.items()] or ["no GPU"]
    if topology.driver_version:
        words.append(f"driver {one_line(topology.driver_version)}")
    text = ", ".join(words)
    return f"{text} ({one_line(topology.source)})" if topology.source else text


def named(topology: Topology, positions: Iterable[int]) -> str:
    """GPUs by their indices, in rising order."""
    return ranges(topology.indices(positions))


def state(topology: Topology, choice: Choice | None, position: int) -> str:
    """What a GPU has to do with the choice; empty if there is nothing to say."""
    if choice is None:
        return "" if position in topology.offered else "not offered"
    if position in choice.request.required:
        return "required"
    if position in choice.chosen:
        return "chosen"
    return "" if position in choice.request.available else "not available"


def group_name(group: Group) -> str:
    """``PXB 40``, with the NUMA node where all of its GPUs are on one."""
    words = list[str]()
    if group.level is not None:
        words.append(f"{NEARNESS[group.level].word} {level_score(group.level)}")
    if group.numa_node is not None:
        words.append(f"NUMA {group.numa_node}")
    return " · ".join(words) or UNKNOWN


def legend(topology: Topology) -> Iterator[tuple[str, str]]:
    """The words for connections that there are on this node, each with its meaning and score."""
    pairs = list(topology.pairs())
    if any(pair.nvlinks for pair in pairs):
        yield "NV#", f"# direct NVLinks, {NVLINK_SCORE} each, added to the score of PCIe"
    else:
        yield "NV#", "no NVLink joins two GPUs directly; those to NVSwitches do not count"
    levels = {pair.level for pair in pairs}
    for level, nearness in NEARNESS.items():
        if level in levels:
            yield nearness.word, f"{nearness.meaning}, {level_score(level)}"
    if None in levels:
        yield UNKNOWN, "not known, 0"


def choice_lines(topology: Topology, choice: Choice) -> Iterator[tuple[str, str]]:
    """The answer and the reasons, each with what it is about."""
    request = choice.request
    yield "asked for", _request(topology, choice)
    if request.required:
        yield "required", f"GPU {named(topology, request.required)}"
    yield PREFERRED, f"GPU {named(topology, choice.chosen)}"
    yield "score", f"{choice.score}"
    yield "total", _total(topology, choice)
    if choice.rival is not None:
        yield "not taken", _rival(topology, choice, choice.rival)
    yield "as good", _equals(topology, choice)


def _request(topology: Topology, choice: Choice) -> str:
    request = choice.request
    available = count(len(request.available), "GPU")
    text = f"{request.size} of {available}, {named(topology, request.available)}"
    is_offer = topology.resource and set(request.available) == set(topology.offered)
    return f"{text} ({topology.resource})" if is_offer else text


def _total(topology: Topology, choice: Choice) -> str:
    division, request = choice.division, choice.request
    if len(division.sets) == 1:
        return str(division.total)
    text = f"{division.total} = {_sum(topology, division)}"
    if not choice.is_exact:
        return f"{text}; there are too many divisions to try all, a better one may exist"
    together = ""
    if len(request.required) > 1:
        together = f" with {named(topology, request.required)} in one set"
    return f"{text}; no division into sets of {request.size}{together} scores more"


def _sum(topology: Topology, division: Division) -> str:
    """The sets by their scores: ``2 x 300 (0-3; 4-7) + 120 (8-11)`` with a proper sign."""
    by_score = dict[int, list[str]]()
    for part in division.sets:
        by_score.setdefault(topology.scores.within(part), []).append(named(topology, part))
    return " + ".join(
        f"{f'{len(sets)} {TIMES} ' if len(sets) > 1 else ''}{score} ({'; '.join(sets)})"
        for score, sets in by_score.items()
    )


def _rival(topology: Topology, choice: Choice, rival: Division) -> str:
    first, less = rival.sets[0], choice.division.total - rival.total
    text = f"GPU {named(topology, first)} with {topology.scores.within(first)}"
    if less:
        return f"{text}: with the best division of the others the total is {rival.total} only"
    return f"{text}: the total is the same, and the division above comes first"


def _equals(topology: Topology, choice: Choice) -> str:
    number = len(choice.equals)
    if not number:
        return "no other set" if choice.knows_all_equals else "not known, there are too many sets"
    limit = "" if choice.knows_all_equals else "at least "
    sets = [f"GPU {named(topology, part)}" for part in choice.equals[:SHOWN_EQUALS]]
    more = number - len(sets)
    text = "; ".join(sets) + (f"; {limit}{more} more" if more else "")
    return f"{text}. The first in the order of the request is taken"
