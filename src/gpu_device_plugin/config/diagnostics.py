"""What there is to say about a configuration file: errors end the load, warnings do not."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError

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
        return ConfigError(f"{self}: {what}", hint)


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """Something in a configuration that works, but probably not as it was meant."""

    place: Place
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """One line: ``FILE:LINE: path: message (hint)``."""
        text = ": ".join(filter(None, (str(self.place), self.message)))
        return f"{text} ({self.hint})" if self.hint else text
