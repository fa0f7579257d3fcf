"""From what was read of a node to a text, a picture or data about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import TextIO

from gpu_device_plugin.console.screen import Screen, colours_for
from gpu_device_plugin.inspection.topology.choice import Choice, Request, choose
from gpu_device_plugin.inspection.topology.data import to_json
from gpu_device_plugin.inspection.topology.matrix import matrix_lines
from gpu_device_plugin.inspection.topology.model import Topology
from gpu_device_plugin.inspection.topology.select import Item, find_positions
from gpu_device_plugin.inspection.topology.svg import to_svg
from gpu_device_plugin.inspection.topology.text import text_lines


def screen(stream: TextIO | None) -> Screen:
    """The terminal, or 80 columns without colours where there is none."""
    if stream is None:
        return Screen()
    return Screen(shutil.get_terminal_size().columns, colours_for(stream, os.environ))


def choose_among(
    topology: Topology, size: int, available: Sequence[Item] | None, required: Sequence[Item]
) -> Choice:
    """The answer to a request in which GPUs are named as users name them.

    Args:
        topology: of the node.
        size: how many GPUs are asked for.
        available: those to choose from; None for all that the plugin offers.
        required: those that must be among the chosen ones.

    Raises:
        ConfigError: there is no such GPU, or no such set.
    """
    gpus = topology.gpus
    offered = topology.offered if available is None else find_positions(available, gpus)
    return choose(topology, Request(offered, find_positions(required, gpus), size))


def render(topology: Topology, choice: Choice | None, form: str, where: Screen) -> str:
    """The topology with the choice, if there is one.

    Args:
        topology: of the node.
        choice: what the plugin would prefer.
        form: ``table``, ``matrix``, ``json`` or ``svg``.
        where: the terminal that a text goes to; matrices are not adapted to its width.
    """
    match form:
        case "json":
            return to_json(topology, choice)
        case "svg":
            return to_svg(topology, choice)
        case "matrix":
            lines = matrix_lines(topology, choice, Screen(None, where.colours))
        case _:
            lines = text_lines(topology, choice, where)
    return "".join(f"{line}\n" for line in lines)
