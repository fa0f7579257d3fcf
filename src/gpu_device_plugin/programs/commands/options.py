"""Options that commands of ``gpu-node`` have in common, and those of another program."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence

from gpu_device_plugin.config.option import Kind, Program
from gpu_device_plugin.config.options import PROGRAMS

PROGRAM_NAMES = tuple(str(program) for program in Program if program is not Program.AGENT)
"""The programs beside ``gpu-node``, of which the agent is a command."""


def add_form_option(parser: argparse.ArgumentParser, forms: Sequence[str], meaning: str) -> None:
    """Adds ``-o``: the form in which a command prints, by default the first one."""
    parser.add_argument(
        "-o",
        "--output",
        choices=forms,
        metavar="FORMAT",
        default=forms[0],
        help=f"{meaning} (default: {forms[0]})",
    )


def add_options_of(
    program: Program, names: Iterable[str], parser: argparse.ArgumentParser, dest: str
) -> None:
    """Adds options of a program, collected as its arguments; their variables count as they do there.

    Args:
        program: whose options they are.
        names: of the options, without dashes.
        parser: of the command.
        dest: name of the list of arguments in what the parser returns.
    """
    group = parser.add_argument_group(f"options of {program.value}")
    for name in names:
        option = PROGRAMS[program].option(name)
        is_switch = option.kind is Kind.BOOL
        group.add_argument(
            *(f"--{each}" for each in option.names),
            dest=dest,
            action="append",
            type=functools.partial("--{}={}".format, name),
            nargs="?" if is_switch else None,
            const="true" if is_switch else None,
            metavar="BOOL" if is_switch else option.metavar,
            help=f"{option.help.rstrip('.')} ({option.env[0]})".replace("%", "%%"),
        )
