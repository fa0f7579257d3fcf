"""Files below a directory that plays the root of another system.

A driver container's file system is mounted somewhere in the plugin's. Its symbolic links are
meant for the container: an absolute one starts at the container's root, not at ours. So every
link is followed here, by hand, and no path leads out of the root, whatever the files in it say.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from gpu_device_plugin.cdi.match import has_magic, matching
from gpu_device_plugin.cdi.paths import base, clean, join, parent
from gpu_device_plugin.cdi.system import System

MAX_LINKS = 255
"""Links followed for one path, as in Go's `filepath.EvalSymlinks`; more are a loop."""


class RealPath(NamedTuple):
    """Where a path leads."""

    path: str
    """The file itself, below the root, without links."""
    plain: bool
    """Whether the host's kernel comes to the same file: no link on the way was absolute or went
    above the root."""


class Root:
    """Read access to one root; what was looked at once is remembered.

    All paths are cleaned absolute paths below the root, except those of `outer`.
    """

    __slots__ = ("_base", "_directories", "_links_leave", "_listings", "_lstat", "_stats", "path")

    def __init__(self, path: str, system: System) -> None:
        self.path = clean(path)
        """The root as this process sees it (without the prefix of `System`)."""
        self._base = (system.prefix + self.path).rstrip("/")
        self._lstat = system.lstat
        self._links_leave = self.path != "/"
        self._stats: dict[str, os.stat_result | None] = {}
        self._listings: dict[str, list[str]] = {}
        self._directories: dict[str, RealPath | None] = {"/": RealPath("/", plain=True)}

    def outer(self, inner: str) -> str:
        """The path as this process sees it."""
        return join(self.path, inner)

    def lstat(self, inner: str) -> os.stat_result | None:
        """The file at a path, not following a last link; None if there is none to be seen."""
        directory = self._directory(parent(inner))
        return None if directory is None else self._look(join(directory.path, base(inner)))

    def real(self, inner: str) -> RealPath | None:
        """Where a path leads with all links followed; None if nowhere."""
        directory = self._directory(parent(inner))
        return None if directory is None else self._follow(directory, base(inner))

    def stat(self, inner: str) -> os.stat_result | None:
        """The file to which a path leads; None if there is none to be seen."""
        found = self.real(inner)
        return None if found is None else self._look(found.path)

    def source(self, inner: str) -> str:
        """What the host must mount to get the file at a path, as this process sees it.

        That is the path itself, but the file without links if the host would be led astray.
        """
        found = self.real(inner)
        return self.outer(inner if found is None or found.plain else found.path)

    def readlink(self, inner: str) -> str | None:
        """The text of the link at a path; None if there is none."""
        directory = self._directory(parent(inner))
        if directory is None:
            return None
        path = join(directory.path, base(inner))
        info = self._look(path)
        return self._read_link(path) if info is not None and stat.S_ISLNK(info.st_mode) else None

    def listdir(self, inner: str) -> list[str]:
        """Names in a directory in byte order, without those that are not UTF-8."""
        found = self.real(inner)
        if found is None:
            return []
        if found.path not in self._listings:
            try:
                names = os.listdir(self._base + found.path)
            except OSError:
                names = []
            self._listings[found.path] = sorted(filter(_is_utf8, names))
        return self._listings[found.path]

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, sorted by name within each directory (Go's `filepath.Glob`).

        Raises:
            PatternError: the pattern is malformed.
        """
        if not has_magic(pattern):
            return [pattern] if self.lstat(pattern) is not None else []
        directory, name = parent(pattern), base(pattern)
        directories = self.glob(directory) if has_magic(directory) else [directory]
        return [
            join(found, entry)
            for found in directories
            for entry in matching(name, self.listdir(found))
        ]

    def open(self, inner: str) -> int:
        """A file descriptor for reading a regular file; the caller closes it.

        Raises:
            OSError: there is none, or it is not a regular file.
        """
        found = self.real(inner)
        if found is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), self.outer(inner))
        # A fifo must not block us, and a link put there meanwhile not be followed.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._base + found.path, flags)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", self.outer(inner))

    def read(self, inner: str, limit: int) -> bytes:
        """The content of a regular file.

        Args:
            inner: its path.
            limit: more bytes than this are refused.

        Raises:
            OSError: it cannot be read, is no regular file or is too large.
        """
        with os.fdopen(self.open(inner), "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"larger than {limit} bytes", self.outer(inner))
        return data

    def _directory(self, inner: str) -> RealPath | None:
        if inner not in self._directories:
            above = self._directory(parent(inner))
            found = None if above is None else self._follow(above, base(inner))
            self._directories[inner] = found
        return self._directories[inner]

    def _follow(self, directory: RealPath, name: str) -> RealPath | None:
        path, plain = directory
        parts, links = [name], 0
        while parts:
            part = parts.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                plain = plain and (path != "/" or not self._links_leave)
                path = parent(path)
                continue
            step = f"{path}/{part}" if path != "/" else f"/{part}"
            info = self._look(step)
            if info is None:
                return None
            if not stat.S_ISLNK(info.st_mode):
                path = step
                continue
            target = self._read_link(step)
            links += 1
            if target is None or links > MAX_LINKS:
                return None
            if target.startswith("/"):
                path = "/"
                plain = plain and not self._links_leave
            parts.extend(reversed(target.split("/")))
        return RealPath(path, plain)

    def _look(self, real: str) -> os.stat_result | None:
        if real not in self._stats:
            try:
                self._stats[real] = self._lstat(self._base + real)
            except (OSError, ValueError):  # ValueError: a NUL in the path
                self._stats[real] = None
        return self._stats[real]

    def _read_link(self, real: str) -> str | None:
        try:
            target = os.readlink(self._base + real)  # a Path would rewrite it
        except OSError:
            return None
        return target if _is_utf8(target) else None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
