"""Keeps the tables of values in docs/chart.md current.

    python tools/generate_chart_docs.py --check    # exit code 1 and the name of a stale file
    python tools/generate_chart_docs.py --write

They are made from values.yaml of the chart: defaults, and the comments above the keys; where there
is no comment, from the descriptions in values.schema.json.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from generated_page import check_or_write

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deployments" / "helm" / "gpu-device-plugin"
PAGE = ROOT / "docs" / "chart.md"
_BLOCK = re.compile(r"(<!-- generated: values -->\n).*?(<!-- end -->)", re.DOTALL)
_SECTION = re.compile(r"# ---- (.+?) -+$")
LONGEST_DEFAULT = 40


@dataclass(frozen=True)
class Value:
    """A row of a table."""

    path: str
    default: object
    meaning: str
    is_new: bool
    section: str


def main(arguments: list[str]) -> int:
    """Checks or writes; returns the exit code."""
    return check_or_write({PAGE: page()}, arguments, __doc__, "tools/generate_chart_docs.py")


def page() -> str:
    """The page as it should be."""
    table = "\n".join(_tables(list(values())))
    text = PAGE.read_text(encoding="utf-8")
    return _BLOCK.sub(lambda match: f"{match[1]}\n{table}\n{match[2]}", text)


def values() -> Iterator[Value]:
    """Every value of the chart, in the order of its file."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    yield from _walk(node, yaml.safe_load(text), schema, text.splitlines(), "")


def _walk(
    node: yaml.MappingNode, defaults: dict[str, Any], schema: Any, lines: list[str], prefix: str
) -> Iterator[Value]:
    for key, child in node.value:
        name, default = key.value, defaults[key.value]
        description = schema.get("properties", {}).get(name, {})
        comment = _comment_above(lines, key.start_mark.line)
        grouped = isinstance(child, yaml.MappingNode) and child.value
        if grouped and "properties" in description and name not in {"nfd", "updateStrategy"}:
            yield from _walk(child, default, description, lines, f"{prefix}{name}.")
        else:
            is_new = comment.startswith("(new)")
            meaning = comment.removeprefix("(new)").strip() or description.get("description", "")
            section = _section_above(lines, key.start_mark.line)
            yield Value(prefix + name, default, meaning, is_new or _is_new(prefix, lines), section)


def _is_new(prefix: str, lines: list[str]) -> bool:
    """Whether the whole group that a value belongs to is new."""
    if not prefix:
        return False
    line = lines.index(f"{prefix.split('.', maxsplit=1)[0]}:")
    return _comment_above(lines, line).startswith("(new)")


def _comment_above(lines: list[str], number: int) -> str:
    """The comment right above a line; examples in it, which are indented, are left out."""
    found = list[str]()
    for line in reversed(lines[:number]):
        text = line.strip()
        if not text.startswith("#") or _SECTION.match(text):
            break
        if not text.startswith("#  "):
            found.insert(0, text.removeprefix("#").strip())
    return " ".join(found)


def _section_above(lines: list[str], number: int) -> str:
    return next(match[1] for line in reversed(lines[:number]) if (match := _SECTION.match(line)))


def _tables(rows: list[Value]) -> Iterator[str]:
    for section in dict.fromkeys(row.section for row in rows):
        yield f"### {section}"
        yield ""
        yield "| Value | Default | Meaning |"
        yield "|---|---|---|"
        for row in rows:
            if row.section == section:
                meaning = row.meaning + (" _New._" if row.is_new else "")
                yield f"| `{row.path}` | {_default(row.default)} | {_escaped(meaning)} |"
        yield ""


def _default(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"`{_escaped(text)}`" if len(text) <= LONGEST_DEFAULT else "see `values.yaml`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
