"""What keeps files from being written for now: a full disk, a read-only mount, a limit."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

_REMEDIES = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space there",
    errno.EROFS: "the directory must be mounted read-write",
    errno.EMFILE: "raise the limit of open files of the process (RLIMIT_NOFILE)",
    errno.ENFILE: "raise the limit of open files of the node (fs.file-max)",
    errno.ENOMEM: "free some memory, or raise the memory limit of the container",
    errno.EIO: "the disk fails: the log of the kernel (dmesg) may say why",
}
PASSING = frozenset(_REMEDIES)
"""Errors of writing that are no mistake in an option and end without one being changed."""
PROBE_BYTES = 4096


def write_error(directory: str, size: int = PROBE_BYTES) -> OSError | None:
    """Why no file of that many bytes can be made in a directory; None if it can be.

    It is tried, as only that tells of space, inodes, quotas and mounts alike; may block.
    """
    probe = os.path.join(directory, f".probe.{os.urandom(8).hex()}.tmp")
    try:
        number = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error
    try:
        with open(number, "wb") as file:
            file.write(bytes(size))
    except OSError as error:
        return error
    finally:
        with suppress(OSError):
            os.unlink(probe)
    return None


def remedy(error: OSError, directory: str) -> str:
    """What would let a directory be written that a passing error has kept from it, else nothing."""
    if error.errno == errno.ENOSPC and _lacks_inodes(directory):
        return "there is space, but no inode is left: remove some files there"
    return _REMEDIES.get(error.errno or 0, "")


def _lacks_inodes(directory: str) -> bool:
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    # File systems without a fixed number of inodes tell of none at all.
    return found.f_files > 0 and found.f_favail == 0
