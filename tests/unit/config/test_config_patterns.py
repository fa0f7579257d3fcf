from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_device_plugin.config.patterns import matches


@pytest.mark.parametrize(
    ("pattern", "text", "anywhere", "whole"),
    [
        ("*", "NVIDIA A100", True, True),
        ("*", "", True, True),
        ("", "NVIDIA A100", True, False),
        ("", "", True, True),
        ("A100", "NVIDIA A100-SXM4-40GB", True, False),
        ("*A100*", "NVIDIA A100-SXM4-40GB", True, True),
        ("1g.5gb", "1g.5gb+me", True, False),
        ("1g.5gb", "1g.5gb", True, True),
        ("2g.10gb", "1c.2g.10gb", True, False),
        ("*gb", "1g.24gb-me", True, False),
        ("1g*gb", "1g.24gb", True, True),
        ("1gX5gb", "1g.5gb", False, False),
        ("1g.5gb", "1gX5gb", False, False),
        ("a100", "NVIDIA A100", False, False),
        ("A?00", "A100", False, False),
        ("[A]100", "A100", False, False),
        ("**", "x", True, True),
        ("a*b", "a\nb", False, False),
        ("*", "a\nb", True, False),
        ("a", "b\na", True, False),
    ],
)
def test_a_star_stands_for_anything_and_all_else_for_itself(
    pattern: str, text: str, anywhere: bool, whole: bool
) -> None:
    assert matches(pattern, text, anchored=False) is anywhere
    assert matches(pattern, text, anchored=True) is whole


def test_the_whole_text_is_matched_unless_said_otherwise() -> None:
    assert not matches("1g.5gb", "1g.5gb+me")


LETTERS = st.text(alphabet="ab\n", max_size=7)
PATTERNS = st.text(alphabet="ab*\n.", max_size=7)


@given(PATTERNS, LETTERS)
@example("*" * 40 + "b", "a" * 60)
def test_patterns_are_like_regular_expressions(pattern: str, text: str) -> None:
    expression = re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", pattern).split("*"))))
    assert matches(pattern, text) == (expression.fullmatch(text) is not None)
    assert matches(pattern, text, anchored=False) == (expression.search(text) is not None)
