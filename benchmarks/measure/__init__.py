"""What several benchmarks have: a report, and what the kernel knows of a process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Report:
    """Results beside their floors and limits."""

    misses: list[str] = field(default_factory=list)
    checks: int = 0

    def line(self, what: str, value: float, unit: str, limit: float, floor: str = "") -> None:
        self.checks += 1
        good = value <= limit
        if not good:
            self.misses.append(what)
        mark = "ok  " if good else "MISS"
        print(f"{mark} {what:<58} {value:9.2f} {unit:<3} limit {limit:8.2f}   {floor}")


def resident(pid: int) -> float:
    """Resident memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def cpu_seconds(pid: int) -> float:
    """Time on processors so far, of the program and of the kernel for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
