"""Command lines and environments, read as the original reads them (urfave/cli v2 on Go's flag).

One or two dashes make no difference; parsing ends at the first argument that is no flag or at
``--``, and what follows is ignored; a boolean takes a value only after ``=``; variables are read
before the command line, so that one with a bad value is an error even if a flag overrides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from gpu_device_plugin.config.flags import Given, read_flags
from gpu_device_plugin.config.options import PROGRAMS, Option, Program, Value
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.config.values import FALSE, TRUE, read_variable
from gpu_device_plugin.errors import UsageError

_HELP_COMMANDS = ("help", "h")
_MOST = 5  # arguments that a message repeats
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a command line and an environment say."""

    program: Program
    values: Mapping[str, Value]
    """By the canonical names of the options; defaults included."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The flag (``--mig-strategy``) or variable that set an option; nothing for defaults."""
    arguments: tuple[str, ...] = ()
    """What is left over, and ignored."""
    switch: str = ""
    """The boolean flag without a value that stands right before what is left over, if one does."""
    command: str = ""
    """The sub-command; with `wants_help`, the one that help is wanted on."""
    wants_help: bool = False
    wants_version: bool = False

    def text(self, name: str) -> str:
        """The value of a text option."""
        return self._value(name, str)

    def flag(self, name: str) -> bool:
        """The value of a boolean option."""
        return self._value(name, bool)

    def strings(self, name: str) -> tuple[str, ...]:
        """The value of a list of texts."""
        return cast("tuple[str, ...]", self._value(name, tuple))

    def integers(self, name: str) -> tuple[int, ...]:
        """The value of a list of integers."""
        return cast("tuple[int, ...]", self._value(name, tuple))

    def integer(self, name: str) -> int:
        """The value of an integer option, or the nanoseconds of a duration."""
        return self._value(name, int)

    def number(self, name: str) -> float:
        """The value of an option that need not be a whole number."""
        return self._value(name, float)

    def is_set(self, name: str) -> bool:
        """Whether a flag or a variable gave the value, be it that of the default."""
        return name in self.origins

    def ignored(self) -> str:
        """The warning, on one line, that arguments are left over; empty if none are."""
        if not self.arguments:
            return ""
        first, *others = map(quote, self.arguments[:_MOST])
        more = len(self.arguments) - _MOST
        words = ", ".join([first, *others, *([f"{more} more"] if more > 0 else [])])
        return f"arguments without effect: {words} ({self._why_ignored(self.arguments[0])})"

    def _why_ignored(self, first: str) -> str:
        if self.switch and first in TRUE | FALSE:
            return f'a boolean takes its value after "=": {self.switch}={first}'
        if self.command:
            return f"{self.command} takes none"
        return f"flags are read up to the first argument that is none, {quote(first)}"

    def _value(self, name: str, wanted: type[_T]) -> _T:
        value = self.values[name]
        if not isinstance(value, wanted):
            raise TypeError(f"option {name} is {type(value).__name__}, not {wanted.__name__}")
        return value


def parse(program: Program, argv: Sequence[str], environ: Mapping[str, str]) -> Parsed:
    """Reads the arguments after the program's name, and the variables of its options.

    Raises:
        UsageError: a flag is not known, or a flag or variable has a value that cannot be read.
    """
    options = PROGRAMS[program].options
    variables = read_variables(options, environ)
    return assemble(program, variables, read_flags(options, argv))


def assemble(program: Program, variables: Given, given: Given) -> Parsed:
    """What variables and flags say together, with the defaults of the options.

    Raises:
        UsageError: a sub-command has arguments that it does not take.
    """
    options = PROGRAMS[program].options
    parsed = Parsed(
        program,
        values={o.name: o.default for o in options} | variables.values | given.values,
        origins=variables.origins | given.origins,
        arguments=given.rest,
        switch=given.switch,
    )
    if parsed.flag("help"):
        return replace(parsed, wants_help=True, command=_command(program, given.rest))
    if parsed.flag("version"):
        return replace(parsed, wants_version=True)
    return _follow_command(parsed)


def read_variables(options: Sequence[Option], environ: Mapping[str, str]) -> Given:
    """What the variables say; of several for one option the first that is defined counts.

    Raises:
        UsageError: a variable has a value that cannot be read.
    """
    given = Given()
    for option in options:
        name = next((name for name in option.env if name in environ), "")
        value = read_variable(option, name, environ[name]) if name else None
        if value is not None:
            given.values[option.name] = value
            given.origins[option.name] = name
    return given


def _follow_command(parsed: Parsed) -> Parsed:
    """Reads on if the first argument is a sub-command; any other argument is ignored."""
    name, *rest = parsed.arguments or ("",)
    if name not in _HELP_COMMANDS and not _command(parsed.program, [name]):
        return parsed
    given = read_flags([PROGRAMS[parsed.program].option("help")], rest)
    wants_help = given.values.get("help") is True
    if name in _HELP_COMMANDS:
        return _help_on(parsed, () if wants_help else given.rest)
    return replace(
        parsed,
        command=name,
        arguments=given.rest,
        switch=given.switch,
        wants_help=wants_help or given.rest[:1] in {(word,) for word in _HELP_COMMANDS},
    )


def _help_on(parsed: Parsed, topics: Sequence[str]) -> Parsed:
    topic = next(iter(topics), "")
    command = _command(parsed.program, topics)
    if topic and not command and topic not in _HELP_COMMANDS:
        raise UsageError(f"there is no help on {quote(topic)}", "see --help")
    return replace(parsed, command=command, arguments=(), wants_help=True)


def _command(program: Program, arguments: Sequence[str]) -> str:
    """The sub-command that the first argument names, if it does."""
    commands = {command.name for command in PROGRAMS[program].commands}
    return next((name for name in arguments[:1] if name in commands), "")
