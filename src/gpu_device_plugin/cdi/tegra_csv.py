"""CSV files that say what a container on Tegra needs.

Source: nvidia-container-toolkit v1.19.1, `internal/platform-support/tegra/csv`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpu_device_plugin.cdi.locate import is_directory
from gpu_device_plugin.cdi.notes import reason
from gpu_device_plugin.cdi.paths import join
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.scan import Scan

CSV_DIRECTORY = "/etc/nvidia-container-runtime/host-files-for-container.d"
CSV_FILES = ("devices.csv", "drivers.csv", "l4t.csv")

_MAX_SIZE = 16 << 20
"""Bytes; the files of JetPack have some ten kilobytes."""


class EntryType(StrEnum):
    """What an entry is to become in the container."""

    DEVICE = "dev"
    DIRECTORY = "dir"
    LIBRARY = "lib"
    SYMLINK = "sym"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line."""

    type: EntryType
    path: str
    """May be a pattern."""


def parse_csv(text: str) -> list[Entry]:
    """The entries of a file; lines that are none are skipped, as nothing marks a comment.

    A line is a type and a path with the first comma between them and blanks around both.
    """
    entries: list[Entry] = []
    for line in text.split("\n"):
        kind, _, path = (part.strip() for part in line.strip().partition(","))
        if path and kind in set(EntryType):
            entries.append(Entry(EntryType(kind), path))
    return entries


def read_entries(scan: Scan) -> list[Entry]:
    """The entries of all files, in order; a file that is missing or has none is warned of."""
    root = _csv_root(scan)
    entries: list[Entry] = []
    for name in CSV_FILES:
        path = join(CSV_DIRECTORY, name)
        try:
            data = root.read(path, _MAX_SIZE)
        except OSError as error:
            scan.notes.warn(f"{root.outer(path)}: not used: {reason(error)}")
            continue
        found = parse_csv(data.decode(errors="replace"))
        if not found:
            scan.notes.warn(f"{root.outer(path)}: has no entries")
        entries += found
    if not entries:
        scan.notes.warn(f"no CSV file in {root.outer(CSV_DIRECTORY)} says what containers need")
    return entries


def paths_of(entries: Iterable[Entry], kind: EntryType) -> list[str]:
    """The paths of one type, in order."""
    return [entry.path for entry in entries if entry.type is kind]


def _csv_root(scan: Scan) -> Root:
    """Below the driver root only if Tegra was asked for: the original's default is absolute."""
    if scan.options.tegra and is_directory(scan.driver, CSV_DIRECTORY):
        return scan.driver
    return scan.host
