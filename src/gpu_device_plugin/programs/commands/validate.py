"""``gpu-node validate``: every problem of configurations, ConfigMaps and manifests."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_device_plugin.config.options import Program

FORMATS = ("table", "json", "yaml", "github")
PROGRAMS = ("nvidia-device-plugin", "gpu-feature-discovery", "mps-control-daemon")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of ``gpu-node validate``."""
    from gpu_device_plugin.programs.commands.options import add_form_option

    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a configuration, a manifest, a directory of them, or - for standard input",
    )
    parser.add_argument(
        "--program",
        action="append",
        choices=PROGRAMS,
        metavar="NAME",
        help="apply the rules of this program only; may be repeated (default: all that read "
        f"configurations: {', '.join(PROGRAMS)})",
    )
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NODE",
        help="also check whether configurations work on a node: a simulated one (a built-in "
        "profile or a YAML file), or hardware for this one; may be repeated",
    )
    parser.add_argument(
        "--strict", action="store_true", help="let warnings fail, and not only errors"
    )
    add_form_option(
        parser,
        FORMATS,
        "table for people, json or yaml for programs, github for annotations of a workflow",
    )


def run_validate(given: argparse.Namespace) -> int:
    """Runs the command.

    Returns:
        0 if nothing is wrong, 1 if anything is, or 2 if the options make no sense.
    """
    from gpu_device_plugin.programs.commands.console import run_command

    return run_command(lambda: _validate(given))


def _validate(given: argparse.Namespace) -> int:
    from gpu_device_plugin.console.screen import colours_for
    from gpu_device_plugin.diagnosis.files import read_texts
    from gpu_device_plugin.diagnosis.nodes import check_on, read_nodes
    from gpu_device_plugin.diagnosis.report import render
    from gpu_device_plugin.diagnosis.validate import validate
    from gpu_device_plugin.programs.commands.console import write_out

    nodes = read_nodes(given.on)
    result = validate(
        read_texts(given.paths), _programs(given.program), lambda source: check_on(source, nodes)
    )
    colours = colours_for(sys.stdout, os.environ)
    write_out(render(result, given.output, colours, strict=given.strict))
    return 0 if result.is_well(strict=given.strict) else 1


def _programs(names: Sequence[str] | None) -> Sequence[Program]:
    from gpu_device_plugin.config.options import Program

    return [Program(name) for name in dict.fromkeys(names or PROGRAMS)]
