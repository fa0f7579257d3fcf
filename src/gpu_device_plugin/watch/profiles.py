"""Which of the configurations in a directory applies to a node.

Rules and their order are those of k8s-device-plugin v0.19.3 (cmd/config-manager/main.go).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.config.files import open_file
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.errors import ConfigError, UsageError

EMPTY = "/dev/null"
"""What the link leads to for an empty configuration, which is a valid one."""
NAMED_DEFAULT = "default"
"""The configuration that the fallback strategy ``named`` takes."""
LARGEST = 16 * 1024 * 1024
"""Bytes that are compared; a ConfigMap holds one mebibyte at most."""


class Fallback(StrEnum):
    """What to try for a node without label where there is no default."""

    NAMED = "named"
    """The configuration that is called ``default``."""
    SINGLE = "single"
    """The only one that there is."""
    EMPTY = "empty"
    """An empty configuration."""


class ProfileError(ConfigError):
    """No configuration can be chosen as things are; a change of label or directory may help."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A configuration that was chosen."""

    name: str
    """Empty for the empty configuration."""
    path: str


@dataclass(frozen=True, slots=True)
class ProfileRules:
    """How a configuration is chosen."""

    directory: str
    """Holds the configurations; mostly a ConfigMap's mount."""
    label: str
    """The label of the node, for messages."""
    default: str = ""
    fallbacks: tuple[str, ...] = ()

    @classmethod
    def of(cls, parsed: Parsed) -> ProfileRules:
        """What the options of config-manager say, or those of the agent, which are the same."""
        return cls(
            directory=parsed.text("config-file-srcdir"),
            label=parsed.text("node-label"),
            default=parsed.text("default-config"),
            fallbacks=parsed.strings("fallback-strategies"),
        )

    def choose(self, value: str) -> Profile:
        """The configuration for a node whose label has that value; empty: it has no such label.

        Raises:
            ProfileError: there is none.
            UsageError: a fallback strategy that is reached is not one.
        """
        names = self._available()
        if value:
            return self._named(value, names, f"the label {self.label} of the node")
        return self._without_label(names)

    def choose_without_label(self) -> Profile:
        """The configuration for a node whose label cannot be followed; raises like `choose`."""
        return self._without_label(self._available())

    def _without_label(self, names: Sequence[str]) -> Profile:
        if self.default:
            return self._named(self.default, names, "--default-config (DEFAULT_CONFIG)")
        for strategy in self.fallbacks:
            if strategy not in list(Fallback):
                allowed = ", ".join(Fallback)
                raise UsageError(
                    f"invalid fallback-strategies: {strategy!r} is not one",
                    f"allowed: {allowed}; set by --fallback-strategies, FALLBACK_STRATEGIES",
                )
            if strategy == Fallback.EMPTY:
                return Profile("", EMPTY)
            if strategy == Fallback.NAMED and NAMED_DEFAULT in names:
                return self._profile(NAMED_DEFAULT)
            if strategy == Fallback.SINGLE and len(names) == 1:
                return self._profile(names[0])
        tried = f" ({', '.join(self.fallbacks)})" if self.fallbacks else ""
        raise ProfileError(
            f"no configuration applies: the node has no label {self.label}, there is no default, "
            f"and no fallback strategy{tried} gives one",
            f"label the node, or set --default-config (DEFAULT_CONFIG); there are {_list(names)}",
        )

    def _named(self, name: str, names: Sequence[str], origin: str) -> Profile:
        if name not in names:
            raise ProfileError(
                f"{origin} names the configuration {name!r}, which does not exist "
                f"in {self.directory}",
                f"there are {_list(names)}",
            )
        return self._profile(name)

    def _profile(self, name: str) -> Profile:
        return Profile(name, os.path.join(self.directory, name))

    def _available(self) -> list[str]:
        """The names of all configurations; those with two dots are the kubelet's own."""
        origin = "--config-file-srcdir (CONFIG_FILE_SRCDIR)"
        try:
            with os.scandir(self.directory) as entries:
                names = sorted(
                    e.name
                    for e in entries
                    if not e.name.startswith("..") and not e.is_dir(follow_symlinks=False)
                )
        except OSError as error:
            raise ProfileError(
                f"{self.directory} cannot be read: {error.strerror}",
                f"{origin} names the directory of the configurations",
            ) from None
        if not names:
            raise ProfileError(f"there are no configurations in {self.directory}", origin)
        return names


def read_contents(path: str) -> bytes | None:
    """The contents of a configuration, by which a change is told; None if it cannot be read."""
    try:
        with open_file(path) as file:
            return file.read(LARGEST)
    except OSError:
        return None


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
