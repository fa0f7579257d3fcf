"""How the files that the plugin has written differ from those that it would write now."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gpu_device_plugin.cdi.generate import GeneratedSpecs
from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.cdi.names import CdiClass
from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.reader import parse_spec
from gpu_device_plugin.cdi.writer import file_name
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.difference import Hunk, compare
from gpu_device_plugin.inspection.files import read_bytes


@dataclass(frozen=True, slots=True)
class Drift:
    """A file that is not what it would be."""

    before: str
    """What is on disk, in words."""
    after: str
    """What would be there."""
    hunks: tuple[Hunk, ...]
    problem: str = ""
    """Why the file on disk is no specification; empty if it is one, or not there."""


@dataclass(frozen=True, slots=True)
class _OnDisk:
    is_there: bool
    spec: Spec | None = None
    problem: str = ""


def find_drifts(specs: GeneratedSpecs, directory: str) -> tuple[Drift, ...]:
    """Compares the file of every class that the plugin knows, asked for or not.

    Raises:
        ConfigError: a file cannot be read, so that nothing can be said of it.
    """
    drifts = (_drift(specs, cls, directory) for cls in CdiClass)
    return tuple(drift for drift in drifts if drift is not None)


def _drift(specs: GeneratedSpecs, cls: CdiClass, directory: str) -> Drift | None:
    path = os.path.join(directory, file_name(f"{specs.vendor}/{cls}"))
    found = _read(path)
    wanted = specs.spec(cls)
    hunks = compare(found.spec, wanted)
    if not hunks and not found.problem:
        return None
    return Drift(
        before=path if found.is_there else f"{path}: not there",
        after="what the plugin would write" if wanted else f"nothing: {_why_not(specs, cls)}",
        hunks=hunks,
        problem=found.problem,
    )


def _read(path: str) -> _OnDisk:
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return _OnDisk(is_there=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{one_line(path)}: cannot be read: {reason(error)}") from None
    try:
        return _OnDisk(is_there=True, spec=parse_spec(data, path))
    except ConfigError as error:
        return _OnDisk(is_there=True, problem=str(error))


def _why_not(specs: GeneratedSpecs, cls: CdiClass) -> str:
    reasons = (result.reason for result in specs.classes if result.cls is cls)
    return next(reasons, "no longer asked for")
