"""What an option of a program is; the tables of options are in the modules ``options_*``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

Value = str | bool | int | float | tuple[str, ...] | tuple[int, ...]
"""The value of an option, as its kind says."""


class Program(StrEnum):
    """The four programs of k8s-device-plugin by the names of their executables, and ours."""

    DEVICE_PLUGIN = "nvidia-device-plugin"
    GPU_FEATURE_DISCOVERY = "gpu-feature-discovery"
    MPS_CONTROL_DAEMON = "mps-control-daemon"
    CONFIG_MANAGER = "config-manager"
    AGENT = "gpu-node agent"
    """Three of the four in one process."""


class Kind(StrEnum):
    """The type of an option's value."""

    TEXT = "text"
    BOOL = "boolean"
    TEXTS = "list of texts"
    INTEGERS = "list of integers"
    INTEGER = "integer"
    NUMBER = "number"
    DURATION = "duration"
    """Nanoseconds, written as ``1m30s`` or ``infinite``."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: a flag, its variables, and the key of the configuration file it overrides."""

    name: str
    kind: Kind
    default: Value
    env: tuple[str, ...]
    """Variables in the order in which they are looked up; the first that is defined counts."""
    help: str
    category: str = "General"
    aliases: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    """The only values that make sense; checked when the configuration is validated."""
    least: int = 0
    """The smallest number that makes sense but 0; the default lets every number pass."""
    config_path: str = ""
    """Key of the configuration file with the same meaning; empty if there is none."""
    metavar: str = ""
    """What the help puts in place of the value."""
    since: str = ""
    """The version of k8s-device-plugin that introduced the option, if later than v0.19.3."""
    ours: bool = False
    """Whether k8s-device-plugin has no such option."""

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical name, then the others."""
        return (self.name, *self.aliases)

    @property
    def settings(self) -> Iterator[str]:
        """Every way to set it: flags, variables, key of the file."""
        yield from (("--" if len(name) > 1 else "-") + name for name in self.names)
        yield from self.env
        if self.config_path:
            yield self.config_path


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command without options of its own."""

    name: str
    summary: str


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The command line of one program."""

    program: Program
    title: str
    """The name by which the program calls itself in its version line and its log."""
    summary: str
    options: tuple[Option, ...]
    commands: tuple[Command, ...] = ()

    def option(self, name: str) -> Option:
        """The option of that canonical name; raises KeyError if there is none."""
        for option in self.options:
            if option.name == name:
                return option
        raise KeyError(name)
