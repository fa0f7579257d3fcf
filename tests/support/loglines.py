"""Every line that the source can log, and the lines that a page of the documentation has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gpu_device_plugin"
METHODS = frozenset({"info", "warning", "error", "exception", "critical", "log"})
PLACEHOLDER = re.compile(r"%(?:%|#?[-0-9.]*[a-zA-Z])")
GAP = "…"


@dataclass(frozen=True)
class LogCall:
    module: str
    """Such as ``plugin.served``, as log lines have it."""
    line: int
    level: str
    text: str
    """The format string; placeholders are gaps."""


@cache
def _trees() -> tuple[tuple[Path, ast.AST], ...]:
    return tuple((path, ast.parse(path.read_text())) for path in sorted(SOURCE.rglob("*.py")))


@cache
def log_calls() -> tuple[LogCall, ...]:
    """All calls of a logger at level info and above."""
    return tuple(call for path, tree in _trees() for call in _calls_in(path, tree))


def _calls_in(path: Path, tree: ast.AST) -> Iterator[LogCall]:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        of = node.func.value
        if node.func.attr in METHODS and isinstance(of, ast.Name) and of.id == "log":
            texts = node.args[1:2] if node.func.attr == "log" else node.args[:1]
            assert texts, f"{path}:{node.lineno}"
            assert isinstance(texts[0], ast.Constant), f"{path}:{node.lineno}: no constant"
            text = PLACEHOLDER.sub(GAP, str(texts[0].value))
            yield LogCall(module, node.lineno, node.func.attr, text)


def texts() -> list[str]:
    """All texts of the source, with gaps for what is put into them; log lines are made of them."""
    return [
        text for path in SOURCE.rglob("*.py") for text in _texts_in(ast.parse(path.read_text()))
    ]


def _texts_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield PLACEHOLDER.sub(GAP, node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else GAP for v in node.values)
            yield "".join(map(str, parts))


def documented(page: str) -> list[str]:
    """The lines that the section on log lines lists: first cells of its tables, and tracebacks."""
    section = page.partition("\n## Log lines\n")[2].partition("\n## ")[0].partition("\n### ")[2]
    cells = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| ")]
    tracebacks = section.partition("Lines with a traceback:")[2].partition("\n\n")[0]
    return [line for cell in (*cells, tracebacks) for line in re.findall("`([^`]+)`", cell)]


def matches(pattern: str, line: str) -> bool:
    """Whether a line can come of a format string with gaps."""
    parts = " ".join(pattern.split()).split(GAP)
    return re.fullmatch(".*".join(map(re.escape, parts)), line) is not None


def letters(pattern: str) -> int:
    """How much of a pattern is said and not filled in."""
    return sum(char.isalpha() for char in pattern)
