"""Where the driver is: its libraries and device nodes as this process sees them."""

from __future__ import annotations

import os

LIBRARY_DIRECTORIES = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)
"""Searched below the driver root, in this order (k8s-device-plugin v0.19.3, root.go)."""


def find_library(driver_root: str, name: str) -> str:
    """The path of a driver library, or its bare name for the dynamic loader to find.

    Args:
        driver_root: the driver root in this process's file system; empty or ``/`` stands for
            the system itself.
        name: file name such as ``libnvidia-ml.so.1``.
    """
    if driver_root in {"", "/"}:
        return name
    for directory in LIBRARY_DIRECTORIES:
        candidate = os.path.join(driver_root, directory, name)
        if os.path.exists(candidate):
            return os.path.realpath(candidate)
    return name


def find_dev_root(driver_root: str) -> str:
    """The root below which device nodes are probed: the driver root if it has a ``dev``."""
    root = driver_root or "/"
    return root if os.path.isdir(os.path.join(root, "dev")) else "/"


def join_root(root: str, path: str) -> str:
    """An absolute path below a root, cleaned as Go's ``filepath.Join`` does."""
    joined = os.path.normpath(root + path)
    # POSIX keeps two leading slashes, Go does not.
    return "/" + joined.lstrip("/") if joined.startswith("/") else joined
