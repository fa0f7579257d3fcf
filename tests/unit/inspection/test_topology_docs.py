"""docs/topology.md shows what the program prints, and the scores that there are."""

from __future__ import annotations

import re
from pathlib import Path

from support.configs import a_config
from support.inventories import a_node

from gpu_device_plugin.console.screen import Screen
from gpu_device_plugin.hardware.model import Links
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.inspection.topology.choice import Request, choose
from gpu_device_plugin.inspection.topology.data import to_dict
from gpu_device_plugin.inspection.topology.model import NEARNESS, level_score, make_topology
from gpu_device_plugin.inspection.topology.read import survey
from gpu_device_plugin.inspection.topology.text import text_lines
from gpu_device_plugin.programs.commands.topology import FORMATS, OPTIONS_OF_PLUGIN

PAGE = (Path(__file__).parents[3] / "docs" / "topology.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_a_text_is_what_is_printed():
    topology = survey(a_config(), SimulatedBackend.from_profile("dgx-1")).topology
    choice = choose(topology, Request(topology.offered, (), 4))
    printed = list(text_lines(topology, choice, Screen()))

    assert [line for line in BLOCKS[0].splitlines() if line not in {*printed, "..."}] == []


def test_the_example_of_a_better_division_is_what_is_printed():
    links = Links(nvlinks={(0, 1): 3, (1, 2): 4, (2, 3): 3})
    topology = make_topology(a_node(4), links)
    choice = choose(topology, Request(topology.offered, (), 2))
    printed = "\n".join(text_lines(topology, choice, Screen()))

    assert BLOCKS[1].rstrip() in printed


def test_the_scores_are_in_the_table():
    for level, nearness in NEARNESS.items():
        assert re.search(
            rf"^\| `{nearness.word}` \|.*\| {level_score(level)} \|$", PAGE, re.MULTILINE
        )


def test_every_option_and_every_key_is_named():
    data = to_dict(make_topology(a_node(0), Links()), None)

    for word in (*FORMATS, *(f"--{name}" for name in OPTIONS_OF_PLUGIN), *data):
        assert f"`{word}`" in PAGE
