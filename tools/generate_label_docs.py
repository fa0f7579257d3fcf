"""Keeps the table of labels in docs/labels.md current.

    python tools/generate_label_docs.py --check    # exit code 1 and the name of a stale file
    python tools/generate_label_docs.py --write

It is made from gpu_device_plugin.labels.catalog.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from generated_page import check_or_write

from gpu_device_plugin.labels.catalog import SECTIONS, Description
from gpu_device_plugin.labels.keys import PREFIX

PAGE = Path(__file__).resolve().parent.parent / "docs" / "labels.md"
_BLOCK = re.compile(r"(<!-- generated: labels -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    """Checks or writes; returns the exit code."""
    return check_or_write({PAGE: page()}, arguments, __doc__, "tools/generate_label_docs.py")


def page() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    table = "\n".join(_tables())
    return _BLOCK.sub(lambda match: f"{match[1]}\n{table}\n{match[2]}", text)


def _tables() -> Iterator[str]:
    for section in SECTIONS:
        yield f"### {section.title}"
        yield ""
        yield f"| Label, without `{PREFIX}` | Meaning | From | There if | Example |"
        yield "|---|---|---|---|---|"
        for item in section.descriptions:
            yield _row(item)
        yield ""


def _row(item: Description) -> str:
    meaning = item.meaning
    if item.replaced_by:
        meaning = f"Deprecated, use `{item.replaced_by}`."
    cells = (f"`{item.key}`", meaning, item.source.summary(), item.when, f"`{item.example}`")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
