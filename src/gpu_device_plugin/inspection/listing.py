"""The devices of specification files, as a program or a person wants to have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.reader import parse_spec
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.catalogue import Entry, ReadSpec, catalogue
from gpu_device_plugin.inspection.files import SpecFile, find_spec_files, read_bytes


@dataclass(frozen=True, slots=True)
class Listing:
    """The devices, and the files that hold none that a runtime could find."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "devices": [entry.to_dict() for entry in self.entries],
            "problems": list(self.problems),
        }


def make_listing(directories: Sequence[str]) -> Listing:
    """Reads the specification files of directories.

    Raises:
        ConfigError: a directory cannot be read.
    """
    return list_files(find_spec_files(directories))


def list_files(files: Iterable[SpecFile]) -> Listing:
    """Reads specification files, which are in the order in which runtimes read them."""
    specs: list[ReadSpec] = []
    problems: list[str] = []
    for file in files:
        try:
            specs.append(ReadSpec(file, parse_spec(read_bytes(file.path), file.path)))
        except (OSError, ValueError) as error:
            problems.append(f"{one_line(file.path)}: cannot be read: {reason(error)}")
        except ConfigError as error:
            problems.append(one_line(str(error)))
    return Listing(catalogue(specs), tuple(problems))
