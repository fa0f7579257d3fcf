"""``gpu-node explain``: what a node offers, and which line or rule is the cause of each thing."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_device_plugin.config.grammar import Parsed
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.diagnosis.answers import Request
    from gpu_device_plugin.diagnosis.comparison import Difference
    from gpu_device_plugin.diagnosis.explanation import Explanation

log = logging.getLogger(__name__)

FORMATS = ("table", "json", "yaml")

_ELSEWHERE = frozenset({"help", "version", "log-format", "log-level", "kubelet-socket"})
_OF_LABELS = ("no-timestamp", "machine-type-file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of ``gpu-node explain``."""
    from gpu_device_plugin.config.options import Program
    from gpu_device_plugin.programs.commands.options import add_form_option, add_options_of

    parser.add_argument(
        "things",
        nargs="*",
        metavar="THING",
        help="a resource (nvidia.com/gpu), a GPU or MIG device (3, 3:1, its UUID) or a label: "
        "only that is explained (default: everything)",
    )
    parser.add_argument(
        "--request",
        action="append",
        type=_request,
        default=[],
        metavar="RESOURCE=NUMBER",
        help="also tell what a container gets that asks for this; may be repeated",
    )
    parser.add_argument(
        "--diff",
        metavar="FILE",
        help="tell what changes if this configuration takes the place of --config-file",
    )
    add_form_option(parser, FORMATS, "table for people; json or yaml with everything")
    plugin = _names_of_plugin()
    add_options_of(Program.DEVICE_PLUGIN, plugin, parser, "for_programs")
    add_options_of(Program.GPU_FEATURE_DISCOVERY, _OF_LABELS, parser, "for_programs")


def _names_of_plugin() -> list[str]:
    from gpu_device_plugin.config.options import PROGRAMS, Program
    from gpu_device_plugin.config.options_shared import LISTENER

    return [
        option.name
        for option in PROGRAMS[Program.DEVICE_PLUGIN].options
        if option.name not in _ELSEWHERE and option.category != LISTENER
    ]


def _request(text: str) -> Request:
    from gpu_device_plugin.diagnosis.answers import parse_request

    try:
        return parse_request(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_explain(given: argparse.Namespace) -> int:
    """Runs the command.

    Returns:
        0, 1 if the node or the configuration cannot be used, or 2 if the options make no sense.
    """
    from gpu_device_plugin.programs.commands.console import run_command

    return run_command(lambda: _explain(given, os.environ))


def _explain(given: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gpu_device_plugin.diagnosis.narrow import narrow
    from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent
    from gpu_device_plugin.programs.commands.console import write_out

    arguments, things = _untangled(given.for_programs or [], given.things)
    arguments = with_file_of_agent(arguments, environ)
    if given.diff is not None:
        arguments = [*arguments, "--no-timestamp=true"]  # which is another one every second
    found = _explanation(arguments, environ, given.request)
    if given.diff is None:
        found = narrow(found, things)
        write_out(_render(found, given.output))
        return _tell(found)
    other = _explanation([*arguments, f"--config-file={given.diff}"], environ, given.request)
    write_out(_render_difference(found, other, given.output))
    return max(_tell(found), _tell(other))


def _untangled(arguments: Sequence[str], things: Sequence[str]) -> tuple[list[str], list[str]]:
    """Gives back the things that a boolean before them has taken for its value.

    The programs take the value of a boolean only after ``=``.
    """
    from gpu_device_plugin.config.values import FALSE, TRUE

    kept, taken = [], list(things)
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name in _switches() and value not in TRUE | FALSE:
            taken.append(value)
            kept.append(f"{name}=true")
        else:
            kept.append(argument)
    return kept, taken


def _switches() -> set[str]:
    from gpu_device_plugin.config.option import Kind
    from gpu_device_plugin.config.options import PROGRAMS

    options = [option for spec in PROGRAMS.values() for option in spec.options]
    return {f"--{option.name}" for option in options if option.kind is Kind.BOOL}


def _explanation(
    arguments: Sequence[str], environ: Mapping[str, str], requests: Sequence[Request]
) -> Explanation:
    from gpu_device_plugin.config.load import load
    from gpu_device_plugin.config.options import Program
    from gpu_device_plugin.diagnosis.explanation import make_explanation
    from gpu_device_plugin.plugin.cdi_settings import CdiSettings
    from gpu_device_plugin.programs.device_plugin import open_backend

    parsed = _parse(Program.DEVICE_PLUGIN, arguments, environ)
    loaded = load(parsed)
    profile = parsed.text("simulate")
    found = make_explanation(
        loaded,
        open_backend(parsed, loaded.config),
        f"simulated node {profile}" if profile else "this node",
        CdiSettings(parsed.strings("cdi-feature-flags"), parsed.strings("cdi-disable-hooks")),
        requests,
    )
    return _with_labels(found, arguments, environ)


def _with_labels(
    found: Explanation, arguments: Sequence[str], environ: Mapping[str, str]
) -> Explanation:
    from gpu_device_plugin.config.load import load
    from gpu_device_plugin.config.options import Program
    from gpu_device_plugin.diagnosis.explanation import with_labels
    from gpu_device_plugin.errors import UserError
    from gpu_device_plugin.programs.commands.labels import report_of

    try:
        parsed = _parse(Program.GPU_FEATURE_DISCOVERY, arguments, environ)
        loaded = load(parsed)
        return with_labels(found, report_of(parsed, loaded), loaded)
    except UserError as error:
        return replace(found, problems=(*found.problems, f"no labels: {error}"))


def _parse(program: Program, arguments: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """The arguments that the program has, and its variables."""
    from gpu_device_plugin.config.grammar import parse
    from gpu_device_plugin.config.options import PROGRAMS

    names = {name for option in PROGRAMS[program].options for name in option.names}
    own = [each for each in arguments if each.partition("=")[0].removeprefix("--") in names]
    return parse(program, own, environ)


def _tell(found: Explanation) -> int:
    """Warnings and problems go to stderr; the exit code."""
    for warning in found.warnings:
        log.warning("%s", warning)
    for problem in found.problems:
        log.error("%s", problem)
    return 1 if found.problems else 0


def _render(found: Explanation, form: str) -> str:
    from gpu_device_plugin.console.data import DATA_FORMS, data_text
    from gpu_device_plugin.console.screen import screen_of
    from gpu_device_plugin.diagnosis.explain_text import explanation_lines

    if form in DATA_FORMS:
        return data_text(found.to_dict(), form)
    lines = explanation_lines(found, screen_of(sys.stdout, os.environ))
    return "".join(f"{line}\n" for line in lines)


def _render_difference(before: Explanation, after: Explanation, form: str) -> str:
    from gpu_device_plugin.console.data import DATA_FORMS, data_text
    from gpu_device_plugin.console.screen import colours_for
    from gpu_device_plugin.diagnosis.comparison import compare
    from gpu_device_plugin.diagnosis.explain_text import difference_lines

    differences: tuple[Difference, ...] = compare(before, after)
    if form in DATA_FORMS:
        data = {
            "before": before.file or None,
            "after": after.file or None,
            "differences": [difference.to_dict() for difference in differences],
        }
        return data_text(data, form)
    colours = colours_for(sys.stdout, os.environ)
    lines = difference_lines(differences, before.file, after.file, colours)
    return "".join(f"{line}\n" for line in lines)
