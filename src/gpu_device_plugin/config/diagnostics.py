"""What there is to say about a configuration file: errors end the load, warnings do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError, UserError

_T = TypeVar("_T")

_LONGEST = 200  # characters of a path that a message repeats


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file something stands."""

    file: str = ""
    line: int = 0
    """From 1 on; 0 if it is not at a line of its own."""
    path: str = ""
    """The key, such as ``sharing.timeSlicing.resources[0].replicas``."""

    def __str__(self) -> str:
        """``FILE:LINE: path``, less what is not known."""
        where = f"{one_line(self.file)}:{self.line}" if self.line else one_line(self.file)
        path = self.path if len(self.path) <= _LONGEST else self.path[: _LONGEST - 3] + "..."
        return ": ".join(filter(None, (where, one_line(path))))

    def below(self, key: str, line: int) -> Place:
        """The place of a key of the mapping that is here."""
        return Place(self.file, line, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int, line: int) -> Place:
        """The place of an item of the list that is here."""
        return Place(self.file, line, f"{self.path}[{index}]")

    def error(self, what: str, hint: str = "") -> ConfigError:
        """The error that this is wrong, with what would be right."""
        return PlacedError(self, what, hint)


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """Something in a configuration that works, but probably not as it was meant."""

    place: Place
    message: str
    hint: str = ""
    loses: bool = False
    """Whether something that is written down has no effect whatever."""

    def __str__(self) -> str:
        """One line: ``FILE:LINE: path: message (hint)``."""
        text = ": ".join(filter(None, (str(self.place), self.message)))
        return f"{text} ({self.hint})" if self.hint else text


class PlacedError(ConfigError):
    """The error that something is wrong at a place."""

    def __init__(self, place: Place, what: str, hint: str = "") -> None:
        super().__init__(f"{place}: {what}", hint)
        self.place = place
        self.what = what


class CombinedError(ConfigError):
    """Several errors at once; to whoever wants to know of one only, it is the first."""

    def __init__(self, errors: Iterable[ConfigError]) -> None:
        self.errors = tuple(errors)
        super().__init__(self.errors[0].message, self.errors[0].hint)


def single_errors(error: ConfigError) -> Iterator[ConfigError]:
    """The errors that an error is made of, if it is made of several, else itself."""
    if isinstance(error, CombinedError):
        for each in error.errors:
            yield from single_errors(each)
    else:
        yield error


Report = Callable[[ConfigError], None]
"""Takes an error that the work can go on after, without what is wrong."""


def at_once(error: ConfigError) -> NoReturn:
    """The report of whoever cannot use anything that has an error: it raises the first one."""
    raise error


def raise_first(errors: Iterable[UserError]) -> None:
    """Raises the first error, if there is one; the others are not looked for."""
    for error in errors:
        raise error


def read_all(readings: Iterable[Callable[[], _T]]) -> list[_T]:
    """What each of the readings gives.

    Raises:
        CombinedError: what is wrong with any of them, all together.
    """
    values: list[_T] = []
    errors: list[ConfigError] = []
    for read in readings:
        try:
            values.append(read())
        except ConfigError as error:
            errors.append(error)
    if errors:
        raise CombinedError(errors)
    return values
