"""``gpu-node``: the operator's tool, one subcommand for each job."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpu_device_plugin import __version__
from gpu_device_plugin.programs.commands.cdi_parser import Parser
from gpu_device_plugin.programs.commands.table import AGENT, COMMANDS
from gpu_device_plugin.programs.entry import hold_signals, leave
from gpu_device_plugin.programs.streams import fill_standard_streams

VERSION_HELP = "print the version and exit"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == [AGENT]:
        hold_signals()
    fill_standard_streams()
    leave(run(given))


def run(argv: Sequence[str]) -> int:
    """Runs a subcommand; its exit code, or 2 if there is no such one."""
    if argv[:1] == [AGENT]:
        return _run_agent(argv[1:])
    parser = make_parser(next((word for word in argv if not word.startswith("-")), ""))
    given, rest = parser.parse_known_args(argv)
    if rest and not given.takes_options_of_plugin:
        given.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if given.run is None:
        parser.print_help(sys.stderr)
        return 2
    given.options_of_plugin = rest
    code: int = given.run(given)
    return code


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The grammar of all subcommands.

    Args:
        only: the one whose own options are needed; None for all of them.
    """
    parser = Parser(
        prog="gpu-node",
        description="Shows, checks and explains how this node offers its GPUs to Kubernetes.",
        formatter_class=_HelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"gpu-node version v{__version__}", help=VERSION_HELP
    )
    parser.set_defaults(
        run=None, parser=parser, make_parser=make_parser, takes_options_of_plugin=False
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=_HelpFormatter,
            # What an abbreviation stands for would change with the next option.
            allow_abbrev=False,
        )
        if only in {None, command.name}:
            parts = command.load()
            parts.add_arguments(sub)
            sub.set_defaults(run=parts.run, command=command, parser=sub)
    return parser


class _HelpFormatter(argparse.HelpFormatter):
    """Room for the names, and no more than 80 columns however wide the terminal is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=22, width=80)


def _run_agent(argv: Sequence[str]) -> int:
    """Its options have the grammar of the programs that it stands for."""
    from gpu_device_plugin.programs.commands.agent import run_agent

    return run_agent(argv)
