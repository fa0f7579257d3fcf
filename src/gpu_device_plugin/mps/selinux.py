"""Labels for SELinux: without one, containers may not use the pipes of the daemon."""

from __future__ import annotations

import errno
import os

SELINUX_ROOT = "/sys/fs/selinux"
CONTAINER_FILES = b"system_u:object_r:container_file_t:s0"
ATTRIBUTE = "security.selinux"


def label_for_containers(directory: str, selinux_root: str = SELINUX_ROOT) -> None:
    """Labels a directory with all that it holds; does nothing where there is no SELinux.

    Raises:
        OSError: a file cannot be labelled.
    """
    if not os.path.isdir(selinux_root):
        return
    _label(directory)
    for base, directories, files in os.walk(directory):
        for name in (*directories, *files):
            _label(os.path.join(base, name))


def _label(path: str) -> None:
    try:
        os.setxattr(path, ATTRIBUTE, CONTAINER_FILES, follow_symlinks=False)
    except OSError as error:
        # A socket that a daemon takes away meanwhile needs no label.
        if error.errno != errno.ENOENT:
            raise
