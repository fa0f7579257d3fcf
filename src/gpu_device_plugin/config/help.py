"""The text of ``--help``, made from the table of options."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.config.durations import format_duration
from gpu_device_plugin.config.flags import dashed
from gpu_device_plugin.config.options import PROGRAMS, Kind, Option, Program, ProgramSpec

WIDTH = 90
"""Columns of the text."""
_INDENT = " " * 8
_METAVARS = {Kind.INTEGER: "NUMBER", Kind.NUMBER: "NUMBER", Kind.DURATION: "DURATION"}


def help_text(program: Program, command: str = "") -> str:
    """The help on a program, or on one of its sub-commands; ends with a newline."""
    spec = PROGRAMS[program]
    lines = _command_lines(spec, command) if command else _program_lines(spec)
    return "\n".join(lines) + "\n"


def _command_lines(spec: ProgramSpec, command: str) -> Iterator[str]:
    yield f"Usage: {spec.program} [OPTIONS] {command}"
    yield ""
    yield next(c.summary for c in spec.commands if c.name == command)


def _program_lines(spec: ProgramSpec) -> Iterator[str]:
    yield f"Usage: {spec.program} [OPTIONS]"
    for command in spec.commands:
        yield f"       {spec.program} [OPTIONS] {command.name}"
    yield ""
    yield f"{spec.title}. {spec.summary}"
    for category in dict.fromkeys(option.category for option in spec.options):
        yield ""
        yield f"{category}:"
        for option in spec.options:
            if option.category == category:
                yield from _option_lines(option)
    yield ""
    yield "Commands:"
    for command in spec.commands:
        yield from _entry(command.name, command.summary)
    yield from _entry("help, h", "Print this text and exit.")
    yield ""
    yield from wrap(
        "A flag overrides the variable, the variable the key of the configuration file, and the "
        "key the default. One or two dashes make no difference; a boolean takes its value after "
        "an equals sign.",
        "",
    )


def _option_lines(option: Option) -> Iterator[str]:
    forms = ", ".join(dashed(name) for name in option.names)
    metavar = option.metavar or _METAVARS.get(option.kind, "")
    if option.kind is Kind.BOOL and option.env:
        forms += "[=BOOL]"
    yield from _entry(f"{forms} {metavar}".rstrip(), option.help)
    yield from wrap(" ".join(_values(option)), _INDENT)
    yield from wrap(" ".join(_settings(option)), _INDENT)


def _values(option: Option) -> Iterator[str]:
    if option.allowed:
        yield f"One of: {', '.join(option.allowed)}."
    default = default_text(option)
    if default:
        yield f"Default: {default}."


def _settings(option: Option) -> Iterator[str]:
    if option.env:
        yield f"Env: {', '.join(option.env)}."
    if option.config_path:
        yield f"File: {option.config_path}."


def default_text(option: Option) -> str:
    """The default as a user would write it; empty if there is none to speak of."""
    value = option.default
    if option.name in {"help", "version"}:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if option.kind is Kind.DURATION and isinstance(value, int):
        return format_duration(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _entry(head: str, text: str) -> Iterator[str]:
    yield f"  {head}"
    yield from wrap(text, _INDENT)


def wrap(text: str, indent: str) -> Iterator[str]:
    """Lines of at most `WIDTH` columns, broken at blanks; none for an empty text."""
    line = indent
    for word in text.split():
        if line != indent and len(line) + 1 + len(word) > WIDTH:
            yield line
            line = indent
        line += word if line == indent else f" {word}"
    if line != indent:
        yield line
