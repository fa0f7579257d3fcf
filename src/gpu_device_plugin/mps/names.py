"""Where the MPS daemons keep their files (k8s-device-plugin v0.19.3, mps/root.go).

The tree is the same in the containers of mps-control-daemon, of the device plugin and of the
workloads; on the host it is below ``--mps-root``::

    /mps/.ready                    all daemons run, or none is needed
    /mps/shm                       a tmpfs, the /dev/shm of the daemons and of their clients
    /mps/nvidia.com/gpu/.started   the daemon of that resource runs and has its limits
    /mps/nvidia.com/gpu/pipe       sockets and lock of the daemon
    /mps/nvidia.com/gpu/log        control.log and server.log
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

MPS_ROOT = "/mps"
"""The tree as containers see it."""
CONTROL_TOOL = "nvidia-cuda-mps-control"
SERVER_PROGRAM = "nvidia-cuda-mps-server"
PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
LOG_VARIABLE = "CUDA_MPS_LOG_DIRECTORY"


def ready_file(root: str) -> str:
    """The file that is there while every daemon runs."""
    return os.path.join(root, ".ready")


def shm_directory(root: str) -> str:
    """Where the shared memory of MPS is mounted."""
    return os.path.join(root, "shm")


@dataclass(frozen=True, slots=True)
class DaemonFiles:
    """The files of one resource's daemon."""

    root: str
    resource: str
    """Full name with the slash, such as ``nvidia.com/gpu.shared``."""

    @property
    def directory(self) -> str:
        """What holds the others."""
        return os.path.join(self.root, self.resource)

    @property
    def pipe(self) -> str:
        """The directory of the sockets; it outlives the daemon, as mounts of clients lead there."""
        return os.path.join(self.directory, "pipe")

    @property
    def lock(self) -> str:
        """The file that the daemon holds a POSIX lock on as long as it lives."""
        return os.path.join(self.pipe, "control_lock")

    @property
    def log(self) -> str:
        """The directory of the logs."""
        return os.path.join(self.directory, "log")

    @property
    def control_log(self) -> str:
        """What the daemon writes down of every command."""
        return os.path.join(self.log, "control.log")

    @property
    def started(self) -> str:
        """The file that is there while the daemon runs with its limits."""
        return os.path.join(self.directory, ".started")

    @property
    def environment(self) -> dict[str, str]:
        """All that the control tool is given: the original passes on nothing else."""
        return {PIPE_VARIABLE: self.pipe, LOG_VARIABLE: self.log}


def touch(path: str) -> None:
    """Makes an empty file, by which others see how far things are; raises OSError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))


def is_absent(path: str) -> bool:
    """Whether a file is known not to be there; one that cannot be looked for may be."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def find_traces(root: str) -> Iterator[DaemonFiles]:
    """The files of every resource that has, or had, a daemon below a root."""
    for vendor in _directories(root):
        for name in _directories(os.path.join(root, vendor)):
            files = DaemonFiles(root, f"{vendor}/{name}")
            if os.path.isdir(files.pipe):
                yield files


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return []
