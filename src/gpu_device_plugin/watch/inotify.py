"""The three system calls of inotify(7) that a directory watch needs.

The libraries for it look the C library up with ``ctypes.util.find_library``, which starts a
process (ldconfig or a compiler) and fails on images that have neither.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
MOVED_FROM = 0x40
MOVED_TO = 0x80
IGNORED = 0x8000
ONLYDIR = 0x01000000

_EVENT = struct.Struct("iIII")


class Inotify:
    """A non-blocking inotify instance."""

    def __init__(self) -> None:
        """Opens the instance; raises OSError (EMFILE, ENFILE, ENOSYS …) where that fails."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def add(self, directory: str, mask: int) -> int:
        """Watches a directory; returns the watch's number. Raises OSError."""
        return self._call("inotify_add_watch", self.fd, os.fsencode(directory), mask)

    def read(self) -> Iterator[tuple[int, int]]:
        """The number and mask of each event that has come."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return
        while data:
            watch, mask, _, length = _EVENT.unpack_from(data)
            yield watch, mask
            data = data[_EVENT.size + length :]

    def close(self) -> None:
        """Ends all watches."""
        os.close(self.fd)

    def _call(self, name: str, *args: int | bytes) -> int:
        result = int(getattr(self._libc, name)(*args))
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
