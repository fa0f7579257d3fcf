"""``gpu-node cdi``: what an operator needs for CDI without the NVIDIA Container Toolkit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CdiCommand:
    """One of the commands."""

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    """Does the work; the exit code."""
    takes_options_of_plugin: bool = False
    failure: int = 1
    """Exit code after an error that a user can mend."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the commands to the parser of ``gpu-node cdi``."""
    parser.set_defaults(cdi_command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        command.add_arguments(sub)
        sub.set_defaults(
            cdi_command=command,
            parser=sub,
            takes_options_of_plugin=command.takes_options_of_plugin,
        )


def run_cdi(given: argparse.Namespace) -> int:
    """Runs the command that was given; errors are one line each on stderr."""
    from gpu_device_plugin.programs.commands.console import USAGE_EXIT, run_command

    command: CdiCommand | None = given.cdi_command
    if command is None:
        given.parser.print_help(sys.stderr)
        return USAGE_EXIT
    return run_command(lambda: command.run(given), command.failure)


def _add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--output-dir",
        metavar="DIR",
        help="write files there, and remove those that no longer hold, as the plugin does",
    )
    target.add_argument(
        "--output",
        choices=["-"],
        metavar="-",
        help="write to standard output, which is the default",
    )
    parser.add_argument(
        "--format",
        choices=["json", "yaml"],
        default="json",
        help="how they are written (default: json)",
    )
    _add_verbose(parser)


def _add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spec-dir",
        metavar="DIR",
        default="/var/run/cdi",
        help="where the plugin has written (default: /var/run/cdi)",
    )
    _add_verbose(parser)


def _add_verbose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verbose", action="store_true", help="name the optional files that were not found"
    )


def _add_list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spec-dir",
        metavar="DIR",
        action="append",
        help="where to look, later ones take precedence (default: /etc/cdi, /var/run/cdi)",
    )
    from gpu_device_plugin.programs.commands.options import add_form_option

    add_form_option(
        parser, ("table", "json", "yaml"), "table for people; json or yaml with everything"
    )


def _add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="FILE|DIR",
        nargs="*",
        help="what to check (default: /etc/cdi, /var/run/cdi)",
    )
    parser.add_argument(
        "--host-root",
        metavar="DIR",
        default="/",
        help="where the host's root is, if this is a container (default: /)",
    )
    parser.add_argument(
        "--no-host-checks",
        action="store_true",
        help="do not look for the nodes, files and hook programs that are named",
    )
    parser.add_argument("--strict", action="store_true", help="count warnings as errors")


def _generate(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.commands.cdi_make import generate

    return generate(given)


def _diff(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.commands.cdi_make import diff

    return diff(given)


def _list(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.commands.cdi_look import list_devices

    return list_devices(given)


def _validate(given: argparse.Namespace) -> int:
    from gpu_device_plugin.programs.commands.cdi_look import validate

    return validate(given)


COMMANDS = (
    CdiCommand(
        name="generate",
        summary="make the specifications that the plugin would write",
        description=(
            "Makes the CDI specifications that nvidia-device-plugin would write with the same "
            "options, on standard output as one document for each class of devices, or as files. "
            "What is missing is told on standard error. The exit code is 1 if there is an error, "
            "such as a GPU that had to be left out."
        ),
        add_arguments=_add_generate_arguments,
        run=_generate,
        takes_options_of_plugin=True,
    ),
    CdiCommand(
        name="list",
        summary="list the devices that container runtimes find",
        description=(
            "Lists the devices of all CDI specifications with what a container gets of each: "
            "device nodes, mounts and hooks. A device that another file has, too, is marked: "
            "'shadowed' if the other one is taken, 'conflict' if neither can be. The exit code is "
            "1 if a file or directory cannot be used."
        ),
        add_arguments=_add_list_arguments,
        run=_list,
    ),
    CdiCommand(
        name="validate",
        summary="find everything that is wrong with specifications",
        description=(
            "Checks CDI specifications, whoever wrote them, and tells each problem with file, line "
            "and field. Errors are what runtimes refuse; warnings are, among others, device nodes, "
            "files and hook programs that are not on this host. The exit code is 1 if there is an "
            "error, and 0 if there are only warnings."
        ),
        add_arguments=_add_validate_arguments,
        run=_validate,
    ),
    CdiCommand(
        name="diff",
        summary="compare what is on disk with what the plugin would write",
        description=(
            "Compares the CDI specifications on disk with those that nvidia-device-plugin would "
            "write now with the same options: not their text, but what they do to containers. "
            "The exit code is 0 if they are the same, 1 if they differ, and 2 if that cannot be "
            "told."
        ),
        add_arguments=_add_diff_arguments,
        run=_diff,
        takes_options_of_plugin=True,
        failure=2,
    ),
)
