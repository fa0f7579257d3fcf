"""Every line that the programs log is in the documentation, and no other is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from support.loglines import GAP, LogCall, documented, letters, log_calls, matches, texts

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
SPECIFIC = 12
"""Letters of a format string that tells its line from most others."""


@cache
def lines() -> tuple[str, ...]:
    return tuple(documented(PAGE.read_text()))


@cache
def source() -> str:
    return "\n".join(" ".join(text.split()) for text in texts())


def name(call: LogCall) -> str:
    return f"{call.module}:{call.line}"


@pytest.mark.parametrize("call", log_calls(), ids=name)
def test_every_line_is_documented(call):
    if letters(call.text):
        assert any(matches(call.text, line) for line in lines()), (
            f'docs/operations.md, "Log lines", has no row for `{" ".join(call.text.split())}`'
        )


@pytest.mark.parametrize("line", lines())
def test_every_documented_line_exists(line):
    patterns = [c.text for c in log_calls() if letters(c.text) >= SPECIFIC]
    if any(matches(pattern, line) for pattern in patterns):
        return
    parts = re.split(rf"{GAP}|FILE:LINE: KEY", line)
    missing = [part for part in parts if part.strip(" :()") not in source()]
    assert not missing, f"no text of the source has {missing}"


@pytest.mark.parametrize("call", log_calls(), ids=name)
def test_pairs_are_at_the_end_of_a_line(call):
    pairs = list(re.finditer(r"\b[a-z_]+=" + GAP, call.text))
    if pairs:
        assert call.text[pairs[0].start() :] == " ".join(pair[0] for pair in pairs)


@pytest.mark.parametrize("call", log_calls(), ids=name)
def test_only_the_configuration_has_several_lines(call):
    assert "\n" not in call.text.removeprefix("running with configuration:\n")
