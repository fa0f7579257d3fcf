"""The options of nvidia-device-plugin on the command line of ``gpu-node cdi``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from gpu_device_plugin.config.grammar import Parsed, parse
from gpu_device_plugin.config.options import PROGRAMS, Option, Program
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.errors import UsageError

SHOWN = (
    "simulate",
    "config-file",
    "device-id-strategy",
    "mig-strategy",
    "device-discovery-strategy",
    "driver-root-ctr-path",
    "driver-root",
    "dev-root",
    "nvidia-cdi-hook-path",
    "cdi-disable-hooks",
    "cdi-feature-flags",
    "gdrcopy-enabled",
    "gds-enabled",
    "mofed-enabled",
    "imex-channel-ids",
    "imex-required",
)
"""The options that decide what is in a specification; the others of the plugin are taken, too."""


def add_options_of_plugin(parser: argparse.ArgumentParser) -> None:
    """Adds the plugin's options to the help; they are not read by this parser."""
    group = parser.add_argument_group("options of nvidia-device-plugin")
    for name in SHOWN:
        option = PROGRAMS[Program.DEVICE_PLUGIN].option(name)
        if option.metavar:
            group.add_argument(f"--{name}", metavar=option.metavar, help=_help(option))
        else:
            group.add_argument(f"--{name}", action="store_true", help=_help(option))


def _help(option: Option) -> str:
    return f"{option.help.rstrip('.')} ({option.env[0]})".replace("%", "%%")


def parse_options_of_plugin(
    arguments: Sequence[str], environ: Mapping[str, str] | None = None
) -> Parsed:
    """Reads what follows the command's own options as the plugin would.

    Raises:
        UsageError: it would not take them.
    """
    parsed = parse(Program.DEVICE_PLUGIN, arguments, os.environ if environ is None else environ)
    if parsed.wants_help or parsed.wants_version:
        raise UsageError("-v is no option here", "--verbose, or gpu-node --version")
    if parsed.command or parsed.arguments:
        first = next(iter(parsed.arguments), parsed.command)
        raise UsageError(f"unexpected argument {quote(first)}", "see --help")
    return parsed
