"""Files that are replaced while the program runs."""

from __future__ import annotations

import os

Identity = tuple[int, int, int] | None


def identity(path: str) -> Identity:
    """What changes when a file is replaced or written; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
