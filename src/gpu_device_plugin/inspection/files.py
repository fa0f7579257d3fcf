"""Reads and writes specification files and looks for them where container runtimes do.

Which files count, and in which order, is as in the CDI library v1.1.0 (`pkg/cdi/spec-dirs.go`).
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.writer import DIRECTORY
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError

MAX_SIZE = 64 << 20
"""Bytes; the largest that the plugin writes has some hundred kilobytes."""

DIRECTORIES = ("/etc/cdi", DIRECTORY)
"""Where runtimes look; what is found later takes precedence."""

EXTENSIONS = (".json", ".yaml")
"""Files with other names are no specifications to a runtime."""


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file that a runtime takes for a specification."""

    path: str
    priority: int
    """The number of its directory; among equal names of devices the highest wins."""


def find_spec_files(directories: Sequence[str]) -> list[SpecFile]:
    """The specification files of directories, in the order in which runtimes read them.

    Raises:
        ConfigError: a directory cannot be read.
    """
    return [
        SpecFile(os.path.join(directory, name), priority)
        for priority, directory in enumerate(dict.fromkeys(directories))
        for name in _names(directory)
    ]


def existing(directories: Iterable[str]) -> tuple[str, ...]:
    """Those of the directories that are there."""
    return tuple(directory for directory in directories if os.path.lexists(directory))


def _names(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(EXTENSIONS) and not entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        raise ConfigError(
            f"{one_line(directory)}: cannot be read: {reason(error)}",
            "a directory with CDI specifications",
        ) from None


def read_bytes(path: str, *, regular: bool = True) -> bytes:
    """The contents of a file.

    Args:
        path: of the file.
        regular: refuse what is no regular file; a fifo that nobody writes to would block.

    Raises:
        OSError: it cannot be read or is too large.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if regular else 0))
    with os.fdopen(fd, "rb") as file:
        if regular and not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        data = file.read(MAX_SIZE + 1)
    if len(data) > MAX_SIZE:
        raise OSError(errno.EFBIG, f"larger than {MAX_SIZE} bytes")
    return data


def replace_file(path: str, data: bytes) -> None:
    """Writes a file that everybody may read; a reader sees the old one or the new one.

    Raises:
        ConfigError: it cannot be written.
    """
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        fd, temporary = tempfile.mkstemp(prefix="spec.", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, 0o644)
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ConfigError(f"{one_line(path)}: cannot be written: {reason(error)}") from None
