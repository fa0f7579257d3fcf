"""Where labels go: the seam, a file for Node Feature Discovery, standard output."""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, Protocol

from gpu_device_plugin.errors import UserError

log = logging.getLogger(__name__)

MODE = 0o644
"""Of a feature file: NFD's worker reads it as another user."""


class OutputError(UserError):
    """Labels cannot be written where they should go."""


class Output(Protocol):
    """A place for labels."""

    @property
    def place(self) -> str:
        """What and where it is, for the log."""
        ...

    async def publish(self, labels: Mapping[str, str]) -> bool:
        """Makes these the labels of the node; returns whether anything had to be written.

        Raises:
            UserError: that cannot be done; what is there stays as it is.
        """
        ...

    async def withdraw(self) -> None:
        """Takes the labels away at the end of the program, where that is called for."""
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...


def render(labels: Mapping[str, str]) -> str:
    """The lines of a feature file, sorted."""
    return "".join(f"{key}={value}\n" for key, value in sorted(labels.items()))


class FileOutput:
    """A feature file that NFD's local source reads; replaced in one step."""

    def __init__(self, path: str, *, keep: bool = False) -> None:
        """Prepares the file; nothing is written yet.

        Args:
            path: of the file; its directory must be there.
            keep: whether it stays behind at the end.
        """
        self._path = os.path.abspath(path)
        self._keep = keep

    @property
    def place(self) -> str:
        """The path."""
        return self._path

    async def publish(self, labels: Mapping[str, str]) -> bool:
        """Replaces the file, unless it holds just these labels already."""
        content = render(labels).encode("ascii")
        if self._is_current(content):
            return False
        directory, name = os.path.split(self._path)
        temporary = ""
        try:
            # The leading dot keeps NFD from reading half a file; in the same directory the
            # rename works on any mount, and no other directory need be writable.
            number, temporary = tempfile.mkstemp(prefix=f".{name}", dir=directory)
            with open(number, "wb") as file:
                os.fchmod(number, MODE)
                file.write(content)
                file.flush()
                os.fsync(number)
            os.replace(temporary, self._path)
        except OSError as error:
            if temporary:
                _remove(temporary)
            raise OutputError(
                f"labels cannot be written to {self._path}: {error.strerror}",
                _HINTS.get(error.errno or 0, "")
                or "--output-file (GFD_OUTPUT_FILE) names the file",
            ) from None
        return True

    async def withdraw(self) -> None:
        """Removes the file, as its labels would stay on the node otherwise."""
        if self._keep:
            return
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("%s cannot be removed: %s", self._path, error.strerror)
        else:
            log.info("removed %s", self._path)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _is_current(self, content: bytes) -> bool:
        try:
            number = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        with open(number, "rb") as file:
            found = os.fstat(number)
            return (
                stat.S_ISREG(found.st_mode)
                and stat.S_IMODE(found.st_mode) == MODE
                and found.st_size == len(content)
                and file.read(len(content) + 1) == content
            )


class StreamOutput:
    """Standard output."""

    place = "standard output"

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout
        self._last: str | None = None

    async def publish(self, labels: Mapping[str, str]) -> bool:
        """Prints the labels, unless they are those that were printed last."""
        text = render(labels)
        if text == self._last:
            return False
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            raise OutputError(f"labels cannot be printed: {error.strerror}") from None
        self._last = text
        return True

    async def withdraw(self) -> None:
        """What is printed stays printed."""

    async def close(self) -> None:
        """There is nothing to let go of."""


_DIRECTORY_HINT = (
    "mount Node Feature Discovery's features.d directory there, or set --output-file "
    "(GFD_OUTPUT_FILE), or publish a NodeFeature object (--use-node-feature-api)"
)
_HINTS = {
    errno.ENOENT: f"the directory does not exist: {_DIRECTORY_HINT}",
    errno.ENOTDIR: f"its directory is none: {_DIRECTORY_HINT}",
    errno.EISDIR: "a directory is in its place",
    errno.EROFS: "the directory must be mounted read-write",
    errno.EACCES: "the user of the container, or SELinux, does not allow it",
    errno.EPERM: "the user of the container, or SELinux, does not allow it",
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
}


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        log.debug("%s stays behind: %s", path, error.strerror)
