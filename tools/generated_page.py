"""What the generators of documentation share: check a page, or write it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def check_or_write(
    wanted: Mapping[Path, str], arguments: list[str], usage: str | None, command: str
) -> int:
    """Checks or writes files; returns the exit code.

    Args:
        wanted: what each file should hold.
        arguments: `--check` or `--write`.
        usage: what is said about anything else.
        command: that writes them.
    """
    if arguments not in (["--check"], ["--write"]):
        print(usage, file=sys.stderr)
        return 2
    stale = {path: text for path, text in wanted.items() if not _holds(path, text)}
    for path, text in stale.items():
        if arguments == ["--write"]:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path}")
        else:
            print(f"not current: {path} (run {command} --write)", file=sys.stderr)
    return 1 if stale and arguments == ["--check"] else 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
