"""``gpu-node status``, ``devices`` and ``pods``: how the node is doing and who has which GPU."""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_device_plugin.errors import UsageError, UserError

if TYPE_CHECKING:
    from gpu_device_plugin.console.screen import Screen
    from gpu_device_plugin.status.look import Look, LookSource
    from gpu_device_plugin.status.model import NodeStatus

log = logging.getLogger(__name__)

FORMATS = ("table", "json", "yaml")
WATCH_SECONDS = 2.0
SHORTEST, LONGEST = 0.1, 86400.0
"""Seconds between two looks."""
UNWELL_EXIT = 3
"""With ``--check``, if something is wrong with the node."""

OPTIONS_OF_PLUGIN = (
    "simulate",
    "config-file",
    "mig-strategy",
    "device-discovery-strategy",
    "driver-root-ctr-path",
)
"""Those that decide which devices there are."""


@dataclass(frozen=True, slots=True)
class View:
    """What one of the commands shows of a status."""

    lines: Callable[[NodeStatus, Screen, str, str], Iterable[str]]
    """As a table, for a resource and a namespace."""
    data: Callable[[NodeStatus, str, str], dict[str, Any]]
    if_empty: str = ""
    """What is said where the table has no line."""
    needs_holders: bool = False
    """Whether there is nothing to show as long as nobody tells who holds what."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of one of the commands."""
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.programs.commands.options import add_form_option, add_options_of

    command = parser.prog.rpartition(" ")[2]
    add_form_option(parser, FORMATS, "table for people; json or yaml with everything")
    parser.add_argument(
        "-w",
        "--watch",
        nargs="?",
        type=_seconds,
        const=WATCH_SECONDS,
        metavar="SECONDS",
        help=f"look again and again until Ctrl-C, every so many seconds (default: {WATCH_SECONDS:g})",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"exit with {UNWELL_EXIT} if a device is unhealthy or the node not ready, for scripts",
    )
    parser.add_argument(
        "--resource", default="", metavar="NAME", help="only this resource, such as nvidia.com/gpu"
    )
    if command != "status":
        parser.add_argument(
            "-n", "--namespace", default="", metavar="NAME", help="only pods of this namespace"
        )
    _add_remote_arguments(parser)
    add_options_of(Program.DEVICE_PLUGIN, OPTIONS_OF_PLUGIN, parser, "for_plugin")
    parser.add_argument(
        "--pod-resources-socket",
        dest="for_plugin",
        action="append",
        type=functools.partial("--{}={}".format, "pod-resources-socket"),
        metavar="SOCKET",
        help="the kubelet's socket that tells which container holds which device; empty: do not "
        "ask (GPU_NODE_POD_RESOURCES_SOCKET)",
    )


def _add_remote_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("asking a running program")
    group.add_argument(
        "--address",
        metavar="ADDRESS",
        help="HOST:PORT or URL of its --metrics-address; the node is not read then "
        "(GPU_NODE_ADDRESS)",
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token that it wants (GPU_NODE_TOKEN_FILE)",
    )
    group.add_argument(
        "--ca-file", default="", metavar="FILE", help="authorities, PEM, that vouch for it"
    )
    group.add_argument(
        "--insecure", action="store_true", help="do not ask for its certificate's authority"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not SHORTEST <= seconds <= LONGEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds from {SHORTEST:g} to {LONGEST:g}"
        )
    return seconds


def run_status(given: argparse.Namespace) -> int:
    """Runs one of the commands; errors are one line each on stderr.

    Returns:
        0, 1 if nothing can be told, 2 if the options make no sense, 3 with ``--check`` if
        something is wrong, 130 after Ctrl-C.
    """
    from gpu_device_plugin.programs.commands.console import run_command

    return run_command(lambda: _run(given))


def _run(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.commands.status_source import open_source

    if given.check and given.watch is not None:
        raise UsageError("--check needs an end, and --watch has none", "leave one of them out")
    source, name = open_source(given, os.environ)
    shown = Shown(given, _view(given.command.name))
    return asyncio.run(_show(source, name, shown))


async def _show(source: LookSource, name: str, shown: Shown) -> int:
    from gpu_device_plugin.programs.commands.console import slow_note, write_out

    try:
        with slow_note(name):
            look = await source.look()
        if shown.seconds is not None:
            from gpu_device_plugin.programs.commands.watch import watch

            return await watch(source, look, shown)
        text = shown.text(look)
        for note in shown.notes(look):
            log.warning("%s", note)
        write_out(text)
        if not text:
            log.info("%s", shown.view.if_empty)
        return shown.exit_code(look)
    finally:
        source.close()


class Shown:
    """What is to be shown of a look, and how.

    Args:
        given: the arguments of the command.
        view: what the command shows.
    """

    def __init__(self, given: argparse.Namespace, view: View) -> None:
        self.view = view
        self.seconds: float | None = given.watch
        """Between two looks; None for one look."""
        self.form: str = given.output
        self._resource: str = given.resource
        self._namespace: str = getattr(given, "namespace", "")
        self._is_check: bool = given.check

    def text(self, look: Look) -> str:
        """The look in the wanted form; empty where a table has no line.

        Raises:
            UserError: it does not tell what is to be shown.
        """
        from gpu_device_plugin.console.data import data_text
        from gpu_device_plugin.console.screen import screen_of

        self.require(look.status)
        if self.form == "table":
            where = screen_of(sys.stdout, os.environ)
            return "".join(f"{line}\n" for line in self.lines(look, where))
        data = self.view.data(look.status, self._resource, self._namespace)
        # A stream has one document a line, as tools for such streams want it.
        return data_text(data, self.form, indent=None if self.seconds else 2)

    def lines(self, look: Look, where: Screen) -> list[str]:
        """The table.

        Raises:
            UserError: the look does not tell what is to be shown.
        """
        self.require(look.status)
        return [*self.view.lines(look.status, where, self._resource, self._namespace)]

    def notes(self, look: Look) -> list[str]:
        """What the look lacks and why."""
        from gpu_device_plugin.status.troubles import pods_note

        note = pods_note(look.status)
        return [*([note] if note else []), *look.notes]

    def exit_code(self, look: Look) -> int:
        """0, or 3 if something is wrong and that is asked for."""
        from gpu_device_plugin.status.troubles import is_well

        return UNWELL_EXIT if self._is_check and not is_well(look.status, self._resource) else 0

    def require(self, status: NodeStatus) -> None:
        """Makes sure that a status tells what is to be shown.

        Raises:
            UserError: it does not.
        """
        pods = status.pods
        if not self.view.needs_holders or pods.time:
            return
        if pods.problem:
            raise UserError(f"which pods hold which devices is not known: {pods.problem}")
        raise UserError(
            f"which pods hold which devices is not known: {status.program} has not asked the "
            "kubelet",
            "nvidia-device-plugin asks it, soon after its start",
        )


def _view(command: str) -> View:
    if command == "pods":
        from gpu_device_plugin.status.show_pods import pods_data, pods_lines

        return View(pods_lines, pods_data, "no such pod holds a device of this node", True)
    if command == "devices":
        from gpu_device_plugin.status.show_devices import devices_data, devices_lines

        return View(devices_lines, devices_data, "no such device is offered on this node")
    from gpu_device_plugin.status.document import to_data
    from gpu_device_plugin.status.show_status import status_lines

    return View(
        lambda status, where, resource, _namespace: status_lines(status, where, resource),
        lambda status, _resource, _namespace: to_data(status),
    )
