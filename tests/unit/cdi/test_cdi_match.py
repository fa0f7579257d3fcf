from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.match import PatternError, escape, has_magic, matches, matching

NAMES = st.text(alphabet="ab.*?[]\\^-\nü", max_size=12)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("*.so.*.*", "libcuda.so.550.163", True),
        ("libcuda.so.*.*", "libcuda.so.1", False),
        ("*", ".hidden", True),
        ("*", "", True),
        ("?", "ü", True),
        ("?", "", False),
        ("a?c", "abc", True),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[\\]]", "]", True),
        ("[]]", "]", None),
        ("[c-a]", "b", False),
        ("[^c-a]", "b", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("ab\\", "ab", None),
        ("[a", "a", None),
        ("[", "[", None),
        ("[-]", "-", None),
        ("a*b*c", "axxbyyc", True),
        ("a*b*c", "axxbyycd", False),
        ("*ab", "aab", True),
        ("lib?*.so*", "lib.so", False),
        ("x\ny*", "x\nyz", True),
    ],
)
def test_patterns_as_go_matches_them(pattern: str, name: str, fits: bool | None) -> None:
    if fits is None:
        with pytest.raises(PatternError):
            matches(pattern, name)
    else:
        assert matches(pattern, name) is fits


@given(NAMES)
def test_an_escaped_name_matches_itself_only(name: str) -> None:
    assert matches(escape(name), name)
    assert not matches(escape(name), name + "x")
    assert has_magic(name) or escape(name) == name


@given(NAMES, NAMES)
def test_any_text_is_a_pattern_or_refused(pattern: str, name: str) -> None:
    try:
        matches(pattern, name)
    except PatternError:
        assert has_magic(pattern)


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=10))
def test_stars_agree_with_plain_regular_expressions(pattern: str, name: str) -> None:
    plain = pattern.replace("*", ".*").replace("?", ".")
    assert matches(pattern, name) == (re.fullmatch(plain, name) is not None)


def test_many_stars_are_no_way_to_hang() -> None:
    """A matcher that tried every division would not end within the age of the universe."""
    assert not matches("*a" * 120 + "b", "a" * 255)


def test_matching_keeps_the_order() -> None:
    assert matching("*.so", ["b.so", "a", "a.so"]) == ["b.so", "a.so"]
