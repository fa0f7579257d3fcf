"""The syntax of flags, as Go's package ``flag`` and urfave/cli v2 have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, cast

from gpu_device_plugin.config.option import Kind, Option, Value
from gpu_device_plugin.config.text import choices, closest, quote
from gpu_device_plugin.config.values import allowed_values, read_value
from gpu_device_plugin.errors import UsageError


@dataclass(slots=True)
class Given:
    """What flags say, by the canonical names of the options."""

    values: dict[str, Value] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """The form in which the flag was given: ``--mig-strategy``."""
    rest: tuple[str, ...] = ()
    """What follows the first argument that is no flag."""
    switch: str = ""
    """The boolean flag without a value that stands right before the rest, if one does."""


Report = Callable[[UsageError, int], None]
"""Takes an error and the number of the argument that is wrong, from 0 on."""


def at_once(error: UsageError, _: int) -> NoReturn:
    """The report of whoever needs all flags to be right: it raises the first error."""
    raise error


def read_flags(options: Sequence[Option], argv: Sequence[str], report: Report = at_once) -> Given:
    """Reads arguments up to the first that is no flag, or ``--``.

    A list that is given repeatedly grows; of anything else the last value counts.

    Args:
        options: the flags that there are.
        argv: the arguments.
        report: is told of a flag that is not known, has no value or a bad one, or is given in
            two forms. If it returns, the flag counts as not given.

    Raises:
        UsageError: what `report` raises.
    """
    known = {name: option for option in options for name in option.names}
    given = Given()
    used: dict[str, int] = {}
    rest = list(argv)
    while rest and len(rest[0]) > 1 and rest[0].startswith("-"):
        number = len(argv) - len(rest)
        argument = rest.pop(0)
        given.switch = ""
        if argument == "--":
            break
        try:
            used[_read_flag(known, argument, rest, given)] = number
        except UsageError as error:
            report(error, number)
    for doubled, number in _in_two_forms(options, used):
        report(doubled, number)
    given.rest = tuple(rest)
    return given


def _read_flag(known: Mapping[str, Option], argument: str, rest: list[str], given: Given) -> str:
    """Adds what a flag says, which may take the next argument; the name it was given by."""
    name, equals, text = _split(argument)
    if name not in known:
        raise UsageError(f"there is no flag {quote(dashed(name))}", _meant(name, known))
    option = known[name]
    if not equals and option.kind is Kind.BOOL:
        given.switch, text = dashed(name), "true"
    elif not equals:
        text = _next(option, name, rest)
    _add(given, option, dashed(name), text)
    return name


def dashed(name: str) -> str:
    """The usual form of a flag: ``--output``, ``-o``."""
    return f"--{name}" if len(name) > 1 else f"-{name}"


def _split(argument: str) -> tuple[str, str, str]:
    """Name, ``=`` and value of ``-name``, ``--name`` or ``--name=value``."""
    body = argument[2:] if argument.startswith("--") else argument[1:]
    if body.startswith(("-", "=")):
        raise UsageError(f"{quote(argument)} is not a flag", "allowed: --name, --name=value")
    return body.partition("=")


def _next(option: Option, name: str, rest: list[str]) -> str:
    """The following argument, whatever it looks like."""
    if not rest:
        raise UsageError(f"the flag {dashed(name)} needs a value", allowed_values(option))
    return rest.pop(0)


def _add(given: Given, option: Option, origin: str, text: str) -> None:
    value = read_value(option, origin, text)
    before = given.values.get(option.name)
    if isinstance(value, tuple) and isinstance(before, tuple):
        value = cast("Value", before + value)
    given.values[option.name] = value
    given.origins[option.name] = origin


def _in_two_forms(
    options: Sequence[Option], used: Mapping[str, int]
) -> Iterator[tuple[UsageError, int]]:
    for option in options:
        forms = [name for name in option.names if name in used]
        if len(forms) > 1:
            words = choices(map(dashed, forms), " and ")
            error = UsageError(f"{words} are the same flag", "give one of them")
            yield error, max(used[name] for name in forms)


def _meant(name: str, known: Mapping[str, Option]) -> str:
    near = closest(name, known)
    return f"did you mean {dashed(near)}?" if near else "see --help"
