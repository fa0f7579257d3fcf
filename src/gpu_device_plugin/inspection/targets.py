"""Which files are to be checked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.inspection.check import Checked, check_file
from gpu_device_plugin.inspection.files import SpecFile, find_spec_files


@dataclass(frozen=True, slots=True)
class Target:
    """A file to check."""

    file: SpecFile
    is_named: bool
    """Whether it was named itself, and not found in a directory: then it may be a pipe."""

    def check(self, host: Root | None) -> Checked:
        """Everything that is wrong with it."""
        return check_file(self.file.path, host, regular=not self.is_named)


def find_targets(paths: Sequence[str]) -> list[Target]:
    """The files that are named, and those of the directories that are; each once.

    Raises:
        ConfigError: a directory cannot be read.
    """
    priorities: dict[str, int] = {}
    targets: dict[str, Target] = {}
    for path, is_named in _expand(paths):
        folder = os.path.abspath(os.path.dirname(path))
        priority = priorities.setdefault(folder, len(priorities))
        targets.setdefault(os.path.abspath(path), Target(SpecFile(path, priority), is_named))
    return sorted(targets.values(), key=lambda target: target.file.priority)


def _expand(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for path in paths:
        if os.path.isdir(path):
            yield from ((file.path, False) for file in find_spec_files([path]))
        else:
            yield path, True
