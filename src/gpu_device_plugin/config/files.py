"""Files that a configuration can be read from: once, or whenever they may have changed."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

ONCE_ONLY = "it is a pipe, which can be read once only"
RIGHT = "it can be a regular file, or /dev/null, which is empty"
RIGHT_ONCE = f"{RIGHT}, or a pipe"
_OTHERS = {
    stat.S_IFDIR: os.strerror(errno.EISDIR),
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFBLK: "it is a block device",
    stat.S_IFCHR: "it is a character device, such as a terminal",
}


class NotAFile(OSError):
    """No configuration is read from what a path leads to; `right` says what it can be."""

    def __init__(self, number: int, problem: str, path: str, *, again: bool) -> None:
        super().__init__(number, problem, path)
        self.right = RIGHT if again else RIGHT_ONCE


def problem_at(path: str) -> str:
    """What keeps a path from being read again and again; empty if nothing does.

    It is looked at without opening it. ``/dev/null``, the empty configuration, is fine.
    """
    try:
        return _problem_of(os.stat(path), again=True)
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)


def open_file(path: str, *, again: bool = True) -> BinaryIO:
    """Opens a file; where it may be read again later, nobody is waited for.

    Args:
        path: of the file.
        again: whether it may be, so that a pipe will not do. Otherwise it is waited until somebody
            writes to a pipe.

    Raises:
        NotAFile: it is of a kind that no configuration is read from.
        OSError: it cannot be opened.
        ValueError: this is no path.
    """
    # To open a device may have effects of its own, or last.
    _require(os.stat(path), path, again=again)
    stream = open(path, "rb", opener=_at_once if again else None)  # noqa: SIM115 - the caller closes
    try:
        _require(os.fstat(stream.fileno()), path, again=again)
    except OSError:
        stream.close()
        raise
    return stream


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _require(found: os.stat_result, path: str, *, again: bool) -> None:
    problem = _problem_of(found, again=again)
    if problem:
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise NotAFile(number, problem, path, again=again)


def _problem_of(found: os.stat_result, *, again: bool) -> str:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFREG or (kind == stat.S_IFCHR and found.st_rdev == _NULL):
        return ""
    if kind == stat.S_IFIFO:
        return ONCE_ONLY if again else ""
    return _OTHERS.get(kind, "it is no file")


_NULL = os.makedev(1, 3)
"""What ``/dev/null`` is on Linux, under whatever name."""
