"""``gpu-node topology``: how the GPUs are connected, and which ones the plugin would prefer."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import TYPE_CHECKING

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from gpu_device_plugin.inspection.topology.read import Survey
    from gpu_device_plugin.inspection.topology.select import Item

log = logging.getLogger(__name__)

FORMATS = ("table", "json", "svg", "matrix")
MOST = 64
"""GPUs of one node."""

OPTIONS_OF_PLUGIN = (
    "simulate",
    "config-file",
    "device-discovery-strategy",
    "driver-root-ctr-path",
    "mig-strategy",
)
"""Those that decide which GPUs there are and which of them are chosen among."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of ``gpu-node topology``."""
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.programs.commands.options import add_form_option, add_options_of

    parser.add_argument(
        "--size",
        type=_size,
        metavar="N",
        help="show which GPUs the plugin would prefer for a container that asks for N",
    )
    parser.add_argument(
        "--available",
        type=_list,
        metavar="LIST",
        help="from these: indices, ranges such as 0-3, and UUIDs or how they begin, separated by "
        "commas (default: those that the plugin offers whole and unshared)",
    )
    parser.add_argument(
        "--required", type=_list, default=(), metavar="LIST", help="these must be among them"
    )
    add_form_option(
        parser,
        FORMATS,
        "table for people; json with everything; svg, a picture; matrix, only what is "
        "between every two GPUs",
        default="by the name of FILE, else table",
    )
    parser.add_argument("--file", metavar="FILE", help="write to FILE, not to standard output")
    add_options_of(Program.DEVICE_PLUGIN, OPTIONS_OF_PLUGIN, parser, "for_plugin")


def _size(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST}")
    return number


def _list(text: str) -> tuple[Item, ...]:
    from gpu_device_plugin.inspection.topology.select import parse_list

    try:
        return parse_list(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_topology(given: argparse.Namespace) -> int:
    """Runs the command; errors are one line each on stderr.

    Returns:
        0, 1 after an error that a user can mend, or 2 if the options make no sense.
    """
    from gpu_device_plugin.programs.commands.console import run_command

    return run_command(lambda: _show(given))


def _show(given: argparse.Namespace) -> int:
    if given.size is None and (given.available or given.required):
        raise UsageError("--available and --required say nothing without --size")
    form = given.output or _format_of(given.file or "")
    text = _render(given, form)
    if given.file in {None, "-"}:
        from gpu_device_plugin.programs.commands.console import write_out

        write_out(text)
    else:
        _write_file(given.file, text)
    return 0


def _format_of(file: str) -> str:
    extension = os.path.splitext(file)[1].removeprefix(".")
    return extension if extension in {"json", "svg"} else FORMATS[0]


def _render(given: argparse.Namespace, form: str) -> str:
    """Reads the node, makes the choice that is asked for, and writes both down."""
    from gpu_device_plugin.inspection.topology import show

    found = _survey(given)
    topology = found.topology
    for problem in topology.problems:
        log.warning("%s", problem)
    for note in found.notes:
        log.warning("%s", note)
    choice = None
    if given.size is not None:
        choice = show.choose_among(topology, given.size, given.available, given.required)
    elif not topology.gpus:
        log.info("NVML lists no GPU on this node")
    to_screen = given.file in {None, "-"}
    return show.render(topology, choice, form, show.screen(sys.stdout if to_screen else None))


def _survey(given: argparse.Namespace) -> Survey:
    from gpu_device_plugin.config.load import load
    from gpu_device_plugin.inspection.topology.read import survey
    from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent
    from gpu_device_plugin.programs.commands.cdi_options import parse_options_of_plugin
    from gpu_device_plugin.programs.device_plugin import open_backend

    parsed = parse_options_of_plugin(with_file_of_agent(given.for_plugin or (), os.environ))
    loaded = load(parsed)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    profile = parsed.text("simulate")
    source = f"simulated node {profile}" if profile else ""
    return survey(loaded.config, open_backend(parsed, loaded.config), source)


def _write_file(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{one_line(path)}: cannot be written: {reason}") from None
