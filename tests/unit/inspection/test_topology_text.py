"""The form of the text about a topology: widths, colours, marks."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from support.inventories import a_gpu, a_node

from gpu_device_plugin.console.screen import ANSI, Screen
from gpu_device_plugin.hardware.model import Links, UnreadableGpu
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.inspection.topology.choice import Request, choose
from gpu_device_plugin.inspection.topology.matrix import matrix_lines
from gpu_device_plugin.inspection.topology.model import Topology, make_topology
from gpu_device_plugin.inspection.topology.text import text_lines

COLOUR = re.compile(r"\x1b\[\d*m")


def topology_of(profile: str) -> Topology:
    backend = SimulatedBackend.from_profile(profile)
    inventory = backend.read()
    return make_topology(inventory, backend.read_links(inventory, lambda: False))


def text_of(
    topology: Topology,
    size: int = 0,
    required: tuple[int, ...] = (),
    screen: Screen = Screen(),  # noqa: B008 - a constant
) -> str:
    choice = choose(topology, Request(topology.offered, required, size)) if size else None
    return "".join(f"{line}\n" for line in text_lines(topology, choice, screen))


def cells(lines: list[str]) -> dict[tuple[str, str], str]:
    """The cells of a matrix by the heads of row and column, whatever blocks it is divided into."""
    found = dict[tuple[str, str], str]()
    heads = list[str]()
    for before, line in pairwise(["", *lines]):
        if line and not before:
            heads = line.split()
        elif line:
            row, *values = line.split()
            found |= {(row, head): value for head, value in zip(heads, values, strict=True)}
    return found


@pytest.mark.parametrize("profile", ["dgx-1", "dgx-2", "dgx-a100", "t4x4", "l40s"])
def test_nothing_is_wider_than_the_terminal(profile):
    topology = topology_of(profile)

    assert max(map(len, text_of(topology, 1).splitlines())) <= 80


def test_columns_that_do_not_fit_come_below_the_others():
    topology = topology_of("dgx-2")
    whole = list(matrix_lines(topology, None, Screen(None)))
    links = whole[: whole.index("")]

    text = text_of(topology).splitlines()
    folded = text[text.index("Links") + 1 : text.index("Scores") - 1]

    assert len(folded) == 2 * 17 + 1
    assert len({len(line) for line in folded if line}) == 1
    assert cells(folded) == {
        (row.removeprefix("GPU"), head.removeprefix("GPU")): cell
        for (row, head), cell in cells(links).items()
    }


def test_a_narrow_terminal_has_narrow_blocks():
    lines = text_of(topology_of("dgx-2"), screen=Screen(20)).splitlines()
    scores = lines[lines.index("Scores") + 1 : lines.index("Groups") - 1]

    assert max(map(len, scores)) <= 20


def test_colours_change_nothing_but_colours():
    topology = topology_of("dgx-1")
    painted = text_of(topology, 4, screen=Screen(80, ANSI))

    assert f"{ANSI.green}GPU0{ANSI.end}" in painted
    assert COLOUR.sub("", painted) == text_of(topology, 4)


def test_a_long_name_is_cut():
    gpus = [a_gpu(0, name="NVIDIA " + "X" * 90), a_gpu(1, name="a\nb")]
    lines = text_of(make_topology(a_node(gpus), Links())).splitlines()
    table = lines[lines.index("") + 1 :][:3]

    assert [len(line) for line in table][1] == 80
    assert table[1].endswith("X…")
    assert table[2].endswith(r"a\nb")


def test_unknown_links_are_marked():
    topology = make_topology(
        replace(a_node(2), unreadable=(UnreadableGpu(2, "lost"),)),
        Links(problems=("GPU 1: timeout",)),
    )
    text = text_of(topology, 2)

    assert "GPU0    X    ?" in text
    assert "?     not known, 0" in text
    assert topology.problems == (
        "GPU 2 cannot be read: lost",
        "links are not known: GPU 1: timeout",
    )


def test_the_gpus_that_are_not_offered_are_marked():
    topology = replace(topology_of("t4x4"), offered=(1, 2))

    assert text_of(topology).count("not offered\n") == 2
    assert text_of(topology, 2).count("not available\n") == 2


def test_a_larger_score_that_would_cost_the_others_more_is_told():
    links = Links(nvlinks={(0, 1): 3, (1, 2): 4, (2, 3): 3})
    text = " ".join(text_of(make_topology(a_node(4), links), 2).split())

    assert "total 600 = 2 × 300 (0, 1; 2, 3); no division" in text  # noqa: RUF001
    assert "GPU 1, 2 with 400: with the best division of the others the total is 400 only" in text
