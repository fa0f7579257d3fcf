"""Configuration files that are read whenever they may have changed, which a pipe cannot be."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

ONCE_ONLY = "it is a pipe or the like, which can be read once only"


def problem_at(path: str) -> str:
    """What keeps a path from being read again and again; empty if nothing does.

    It is looked at without waiting for anybody. ``/dev/null``, the empty configuration, is fine.
    """
    try:
        return _problem_of(os.stat(path).st_mode)
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)


def open_again(path: str) -> BinaryIO:
    """Opens a file that may be read again later; of a pipe nobody is waited for.

    Raises:
        OSError: it cannot be opened, or not be read again.
        ValueError: this is no path.
    """
    stream = open(path, "rb", opener=_at_once)  # noqa: SIM115 - whoever asks closes it
    problem = _problem_of(os.fstat(stream.fileno()).st_mode)
    if problem:
        stream.close()
        raise OSError(errno.ESPIPE, problem)
    return stream


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _problem_of(mode: int) -> str:
    if stat.S_ISREG(mode) or stat.S_ISCHR(mode):
        return ""
    return os.strerror(errno.EISDIR) if stat.S_ISDIR(mode) else ONCE_ONLY
