"""Whether a control daemon lives, told by the lock that it holds on ``pipe/control_lock``.

NVIDIA's daemon keeps a POSIX write lock there from its start to its end (seen with 535.309.01).
Asking who holds it neither disturbs the daemon nor leaves a line in its log.
"""

from __future__ import annotations

import fcntl
import os
import struct

from gpu_device_plugin.mps.names import DaemonFiles

_FLOCK = struct.Struct("hhqqi4x")
"""``struct flock`` on 64-bit Linux: type, whence, start, length, pid."""
UNSEEN = 0
"""The pid of a holder in a PID namespace that we do not see into."""


def lock_holder(files: DaemonFiles) -> int | None:
    """The pid of the daemon that lives there, `UNSEEN` if it has none for us, None without one.

    Raises:
        OSError: that cannot be seen for now, such as without a file descriptor to spare. A daemon
            that was seen before is not dead for that.
    """
    try:
        fd = os.open(files.lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, question))
    except OSError as error:
        error.filename = files.lock
        raise
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else max(int(pid), UNSEEN)


def is_held(files: DaemonFiles, *, unknown: bool) -> bool:
    """Whether a daemon lives there.

    Args:
        files: its own.
        unknown: the answer where that cannot be seen for now.
    """
    try:
        return lock_holder(files) is not None
    except OSError:
        return unknown
