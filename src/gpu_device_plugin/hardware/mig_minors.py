"""Device nodes through which MIG instances are opened: ``/dev/nvidia-caps/nvidia-cap<minor>``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

MIG_MINORS_FILE = "/proc/driver/nvidia-caps/mig-minors"

_LINE = re.compile(r"gpu(\d{1,9})/gi(\d{1,9})(?:/ci(\d{1,9}))?/access (\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class MigMinors:
    """Minor numbers by (GPU minor, GPU instance, compute instance or None)."""

    minors: Mapping[tuple[int, int, int | None], int] = field(default_factory=dict)

    def of(self, gpu_minor: int, gi: int, ci: int) -> tuple[int, int] | None:
        """Minors of the GPU instance and the compute instance; None if either is missing."""
        first = self.minors.get((gpu_minor, gi, None))
        second = self.minors.get((gpu_minor, gi, ci))
        return None if first is None or second is None else (first, second)


def parse_mig_minors(text: str) -> MigMinors:
    """Parses the driver's table; lines of other forms (``config``, ``monitor``) do not count."""
    minors = dict[tuple[int, int, int | None], int]()
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match:
            gpu, gi, ci, minor = match.groups()
            minors[int(gpu), int(gi), None if ci is None else int(ci)] = int(minor)
    return MigMinors(minors)


def read_mig_minors(path: str = MIG_MINORS_FILE) -> MigMinors:
    """Reads the driver's table; a missing file is an empty one (no GPU can be cut)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_mig_minors(file.read())
    except OSError:
        return MigMinors()
