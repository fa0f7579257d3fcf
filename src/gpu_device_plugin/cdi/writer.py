"""Puts specifications where container runtimes look for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpu_device_plugin.cdi.generate import ClassResult, GeneratedSpecs
from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.cdi.names import CdiClass
from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.validate import validate
from gpu_device_plugin.errors import ConfigError, UnwritableError
from gpu_device_plugin.storage import PASSING, remedy, write_error

DIRECTORY = "/var/run/cdi"
"""Where every runtime looks for specifications that do not outlive a boot (CDI specification)."""

_FILE_MODE = 0o644
_DIRECTORY_MODE = 0o755


class Action(StrEnum):
    """What became of a file."""

    WRITTEN = "written"
    REMOVED = "removed"
    LEFT = "left"
    """It ought to be removed and could not be."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """One file and why it is as it is now."""

    path: Path
    action: Action
    reason: str = ""
    """Empty for a file that was written."""

    def __str__(self) -> str:
        return f"{self.action} {self.path}" + (f": {self.reason}" if self.reason else "")


def write_specs(specs: GeneratedSpecs, directory: str = DIRECTORY) -> tuple[FileOutcome, ...]:
    """Writes every specification and removes those of earlier runs that no longer hold.

    A reader sees the old file or the new one, never a part. Files of other vendors and of
    classes that the plugin does not know are not touched.

    Raises:
        ConfigError: the directory or a file cannot be written; files written before stay.
        UnwritableError: the same, for now.
    """
    folder = Path(directory)
    try:
        _make(folder)
    except OSError as error:
        raise _refusal(f"{folder}: cannot be made", error, folder, 0) from error
    outcomes = [FileOutcome(write_spec(spec, folder), Action.WRITTEN) for spec in specs.specs]
    results = {result.cls: result for result in specs.classes}
    for cls in CdiClass:
        path = folder / file_name(f"{specs.vendor}/{cls}")
        if specs.spec(cls) is None and os.path.lexists(path):
            outcomes.append(_remove(path, results.get(cls)))
    return tuple(outcomes)


def write_spec(spec: Spec, folder: Path) -> Path:
    """Writes one specification and returns its path.

    Raises:
        ConfigError: it is not valid, or the file cannot be written.
        UnwritableError: the file cannot be written for now.
    """
    validate(spec)
    path = folder / file_name(spec.kind)
    data = b""
    try:
        data = spec.to_json().encode()
        _replace(path, data)
    except (OSError, UnicodeEncodeError) as error:  # an option that is not UTF-8
        raise _refusal(f"{path}: cannot be written", error, folder, len(data)) from error
    return path


def _make(folder: Path) -> None:
    folder.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)


def _refusal(
    what: str, error: OSError | UnicodeEncodeError, folder: Path, size: int
) -> ConfigError | UnwritableError:
    """The error that tells what could not be made, and for something that may pass, when it has."""
    message = f"{what}: {reason(error)}"
    if not isinstance(error, OSError) or error.errno not in PASSING:
        return ConfigError(message)

    def is_over() -> bool:
        try:
            _make(folder)
        except OSError:
            return False
        return write_error(str(folder), size) is None

    return UnwritableError(message, remedy(error, str(folder)), is_over)


def file_name(kind: str) -> str:
    """The file of a kind, ``VENDOR-CLASS.json``."""
    return f"{kind.replace('/', '-')}.json"


def _replace(path: Path, data: bytes) -> None:
    # Runtimes read .json and .yaml only, so they do not see the temporary file. It is not
    # synced: the usual directory does not outlive a crash of the machine.
    temporary = path.with_name(f"spec.{os.urandom(8).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(temporary, flags, _FILE_MODE)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), _FILE_MODE)  # whatever the umask
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove(path: Path, result: ClassResult | None) -> FileOutcome:
    why = result.reason if result is not None else "no longer asked for"
    try:
        path.unlink()
    except OSError as error:
        return FileOutcome(path, Action.LEFT, f"{why}; cannot be removed: {reason(error)}")
    return FileOutcome(path, Action.REMOVED, why)
