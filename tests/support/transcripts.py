"""Commands in pages of documentation, and the files that they work on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
_COMMAND = re.compile(r"```console\n\$ gpu-node (.*?)\n(.*?)```\n", re.DOTALL)


@dataclass(frozen=True)
class Transcript:
    """A command and what the page says that it prints."""

    arguments: tuple[str, ...]
    output: str


def files_of(page: Path) -> dict[str, str]:
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def transcripts_of(page: Path) -> list[Transcript]:
    found = _COMMAND.findall(page.read_text(encoding="utf-8"))
    return [Transcript(tuple(command.split()), output) for command, output in found]
