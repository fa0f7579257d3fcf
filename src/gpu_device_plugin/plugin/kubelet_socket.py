"""The kubelet's registration socket, and whether it is still the same kubelet's."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gpu_device_plugin.kubelet import api

Identity = tuple[int, int, int]
"""Device, inode and time of making of a socket file; who owns it may change meanwhile."""


@dataclass(frozen=True, slots=True)
class KubeletSocket:
    """Where plugins register.

    The socket file of a kubelet that has started again is another one, which is how a restart
    is told; inode numbers alone are used again soon, hence the time.
    """

    path: str

    @property
    def is_wanted(self) -> bool:
        """Whether plugins shall be registered at all (an empty --kubelet-socket says no)."""
        return bool(self.path)

    @property
    def directory(self) -> str:
        """The directory that holds the socket."""
        return os.path.dirname(os.path.normpath(self.path)) or "."

    def identity(self) -> Identity | None:
        """Tells one kubelet's socket from the next one's; None if there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns


def plugin_socket_path(name: str, directory: str = api.DEVICE_PLUGIN_DIR) -> str:
    """Where a plugin's socket is: in the kubelet's own directory, whatever --kubelet-socket says."""
    return os.path.join(directory, name)
