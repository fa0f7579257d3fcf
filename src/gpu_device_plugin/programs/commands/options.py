"""Options that commands of ``gpu-node`` have in common, and those of another program."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence

from gpu_device_plugin.config.option import Kind, Program
from gpu_device_plugin.config.options import PROGRAMS

PROGRAM_NAMES = tuple(str(program) for program in Program if program is not Program.AGENT)
"""The programs beside ``gpu-node``, of which the agent is a command."""


FOR_PEOPLE = "table"
"""What the form for people is called in every command; it comes first."""
OTHER_NAME = "text"
"""Is accepted in its place, unless another form of the command is called so."""


def add_form_option(
    parser: argparse.ArgumentParser, forms: Sequence[str], meaning: str, *, default: str = ""
) -> None:
    """Adds ``-o``: the form in which a command prints.

    Args:
        parser: of the command.
        forms: all that there are.
        meaning: what they are good for.
        default: which one is used without the option, if that depends on other options;
            otherwise it is the first one.
    """

    def named(form: str) -> str:
        return FOR_PEOPLE if form == OTHER_NAME and OTHER_NAME not in forms else form

    parser.add_argument(
        "-o",
        "--output",
        type=named,
        choices=forms,
        metavar="FORMAT",
        default=None if default else forms[0],
        help=f"{meaning} (default: {default or forms[0]})",
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
