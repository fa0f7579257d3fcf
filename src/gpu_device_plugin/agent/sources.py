"""Where the configuration of a node comes from: one file, or one of many by a label."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

from gpu_device_plugin.watch.node_label import NodeLabel
from gpu_device_plugin.watch.profiles import Profile, ProfileRules


class Source(Protocol):
    """Says which file is the configuration at this moment."""

    @property
    def directory(self) -> str:
        """The directory in which changes show; empty if there is none to watch."""
        ...

    def choose(self) -> Profile:
        """The configuration that is wanted.

        Raises:
            ConfigError: there is none as things are.
        """
        ...

    @property
    def has_others(self) -> bool:
        """Whether there may be another configuration than the one that is wanted."""
        ...

    def choose_otherwise(self) -> Profile:
        """The configuration to begin with if the one that is wanted cannot be used.

        Raises:
            ConfigError: there is none as things are.
        """
        ...


@dataclass(frozen=True, slots=True)
class SingleFile:
    """``--config-file``, or no file at all."""

    path: str
    has_others = False

    @property
    def directory(self) -> str:
        """The one that holds the file: the kubelet swaps a ConfigMap's files there."""
        return os.path.dirname(os.path.abspath(self.path)) if self.path else ""

    def choose(self) -> Profile:
        """The file, whether it is there or not."""
        return Profile("", self.path)

    def choose_otherwise(self) -> Profile:
        """There is no other."""
        return self.choose()


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A file of ``--config-file-srcdir`` that a label of the node names."""

    rules: ProfileRules
    label: NodeLabel
    has_others = True

    @property
    def directory(self) -> str:
        """The one that holds all files."""
        return self.rules.directory

    def choose(self) -> Profile:
        """What the label names; what applies without label as long as that is not known."""
        value = self.label.value
        return self.choose_otherwise() if value is None else self.rules.choose(value)

    def choose_otherwise(self) -> Profile:
        """What applies to a node without label."""
        return self.rules.choose_without_label()
