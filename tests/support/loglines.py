"""Every line that the source can log, and the lines that a page of the documentation has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
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


def log_calls(source: Path = SOURCE) -> list[LogCall]:
    """All calls of a logger at level info and above."""
    return [call for path in sorted(source.rglob("*.py")) for call in _calls_in(path, source)]


def _calls_in(path: Path, source: Path) -> Iterator[LogCall]:
    module = ".".join(path.relative_to(source).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        of = node.func.value
        if node.func.attr in METHODS and isinstance(of, ast.Name) and of.id == "log":
            texts = node.args[1:2] if node.func.attr == "log" else node.args[:1]
            assert texts, f"{path}:{node.lineno}"
            assert isinstance(texts[0], ast.Constant), f"{path}:{node.lineno}: no constant"
            text = PLACEHOLDER.sub(GAP, str(texts[0].value))
            yield LogCall(module, node.lineno, node.func.attr, text)
