"""The shared memory of MPS: a tmpfs of its own, the /dev/shm of daemons and clients.

As k8s-device-plugin v0.19.3 does with the programs mount and umount (mount/mount-shm.go), but by
the system calls themselves, so that the image needs neither.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import re

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.mps.names import shm_directory

log = logging.getLogger(__name__)

SIZE_UNKNOWN = "65536k"
"""The size without knowledge of the machine's memory (Docker's default for /dev/shm)."""
MEMINFO = "/proc/meminfo"
MOUNTINFO = "/proc/self/mountinfo"
MOST_LAYERS = 64
"""Mounts that are taken off one place; more than that is somebody mounting at the same time."""

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_RELATIME = 2, 4, 8, 1 << 21
_MNT_DETACH = 2


def mount_shm(root: str) -> None:
    """Mounts the shared memory below a root, in place of what is mounted there.

    Raises:
        UserError: that is not possible.
    """
    path = shm_directory(root)
    try:
        _clear(path)
        os.makedirs(path, 0o755, exist_ok=True)
        options = f"size={half_of_memory()}"
        flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_RELATIME
        _call("mount", path, b"shm", os.fsencode(path), b"tmpfs", flags, options.encode())
    except OSError as error:
        hint = "the container must be privileged" if error.errno == errno.EPERM else ""
        raise UserError(f"{path} cannot be mounted: {error.strerror}", hint) from None
    log.info("mounted %s %s", path, options)


def half_of_memory(meminfo: str = MEMINFO) -> str:
    """Half of the machine's memory as an option of tmpfs; see `half_of`."""
    try:
        with open(meminfo, encoding="ascii", errors="replace") as file:
            return half_of(file.read())
    except OSError:
        return SIZE_UNKNOWN


def half_of(meminfo: str) -> str:
    """``MemTotal: 65803353 kB`` → ``32901676k``; what cannot be read counts as 128 MiB."""
    found = re.search(r"^MemTotal:\s+(\d+)(?:[ \t]+(\S))?", meminfo, re.MULTILINE)
    return f"{int(found[1]) // 2}{found[2] or ''}" if found else SIZE_UNKNOWN


def _clear(path: str) -> None:
    """Takes off all that is mounted there; files below it that are in the way are only hidden."""
    for _ in range(MOST_LAYERS):
        if not _is_mounted(path):
            break
        # Detached even if busy: running clients keep the memory that they have.
        _call("umount2", path, os.fsencode(path), _MNT_DETACH)
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("%s is mounted over as it is: %s", path, error.strerror)


def _is_mounted(path: str) -> bool:
    with open(MOUNTINFO, "rb") as file:
        return any(_unescape(line.split()[4]) == os.fsencode(path) for line in file)


def _unescape(field: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes((int(m[1], 8),)), field)


def _call(name: str, path: str, *args: bytes | int) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    converted = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in args]
    if function(*converted):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
