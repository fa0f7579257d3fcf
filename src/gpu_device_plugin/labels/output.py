"""Where labels go: the seam, a file for Node Feature Discovery, standard output."""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
import threading
from collections.abc import Mapping
from typing import IO, Protocol

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.storage import remedy
from gpu_device_plugin.threads import in_thread

log = logging.getLogger(__name__)

MODE = 0o644
"""Of a feature file: NFD's worker reads it as another user."""
REFRESH_PASSES = 10
"""After so many passes without a change a file is replaced all the same, so that its age shows
that somebody looks after it (v0.19.3 replaces it at every pass)."""
LAST_WRITE_SECONDS = 1.0
"""How long the end of the program waits for a file system that hangs."""


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
        self._left_alone = 0
        """Passes in a row that had nothing to write."""
        self._lock = threading.Lock()
        self._is_withdrawn = False

    @property
    def place(self) -> str:
        """The path."""
        return self._path

    async def publish(self, labels: Mapping[str, str]) -> bool:
        """Replaces the file, unless it holds just these labels already."""
        content = render(labels).encode("ascii")
        return await in_thread("write", lambda: self._put(content))

    def _put(self, content: bytes) -> bool:
        with self._lock:
            is_current = self._is_current(content)
            self._left_alone += 1
            if not self._is_withdrawn and (not is_current or self._left_alone >= REFRESH_PASSES):
                self._replace(content)
                self._left_alone = 0
            return not is_current

    def _replace(self, content: bytes) -> None:
        directory, name = os.path.split(self._path)
        # The leading dot keeps NFD from reading half a file; in the same directory the rename
        # works on any mount, and no other directory need be writable.
        temporary = os.path.join(directory, f".{name}.{os.urandom(4).hex()}")
        try:
            _write(temporary, content)
            os.replace(temporary, self._path)
        except OSError as error:
            _remove(temporary)
            hint = remedy(error, directory) or _HINTS.get(error.errno or 0)
            raise OutputError(
                f"labels cannot be written to {self._path}: {error.strerror}",
                hint or "--output-file (GFD_OUTPUT_FILE) names the file",
            ) from None

    async def withdraw(self) -> None:
        """Removes the file, as its labels would stay on the node otherwise."""
        if self._keep:
            return
        # A pass that was cut short may still be writing.
        is_quiet = self._lock.acquire(timeout=LAST_WRITE_SECONDS)
        self._is_withdrawn = True
        if is_quiet:
            self._lock.release()
        try:
            os.unlink(self._path)
        except OSError as error:
            # A read-only file system refuses before it looks whether there is such a file.
            if os.path.lexists(self._path):
                log.warning("%s cannot be removed: %s", self._path, error.strerror)
        else:
            log.info("removed %s", self._path)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _is_current(self, content: bytes) -> bool:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            number = os.open(self._path, flags)
        except OSError:
            return False
        try:
            found = os.fstat(number)
            return (
                stat.S_ISREG(found.st_mode)
                and stat.S_IMODE(found.st_mode) == MODE
                and found.st_size == len(content)
                and os.read(number, len(content) + 1) == content
            )
        except OSError:
            return False
        finally:
            os.close(number)


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
            raise OutputError(
                f"labels cannot be printed: {error.strerror}",
                "they go to standard output, as --output-file (GFD_OUTPUT_FILE) is empty",
            ) from None
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
    errno.EACCES: "the user of the container, or SELinux, does not allow it",
    errno.EPERM: "the user of the container, or SELinux, does not allow it",
}


def _write(path: str, content: bytes) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    with open(number, "wb") as file:
        os.fchmod(number, MODE)  # whatever the umask is
        file.write(content)
        file.flush()
        os.fsync(number)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        log.debug("%s stays behind: %s", path, error.strerror)
