from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.paths import base, below, clean, depth, join, parent

PATHS = st.lists(st.sampled_from(["", ".", "..", "a", "b.c", "ü"]), max_size=8).map(
    lambda parts: "/" + "/".join(parts)
)


@pytest.mark.parametrize(
    ("path", "cleaned"),
    [
        ("", "/"),
        ("/", "/"),
        ("//a///b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/../../a", "/a"),
        ("a/b", "/a/b"),
    ],
)
def test_cleaning(path: str, cleaned: str) -> None:
    assert clean(path) == cleaned


@given(PATHS)
def test_cleaning_agrees_with_the_standard_library(path: str) -> None:
    expected = "/" + posixpath.normpath(path).lstrip("/")
    assert clean(path) == expected
    assert clean(clean(path)) == clean(path)


@given(PATHS)
def test_parent_and_base_make_the_path_again(path: str) -> None:
    cleaned = clean(path)
    assert join(parent(cleaned), base(cleaned)) == cleaned


def test_join_goes_below_the_first_part() -> None:
    assert join("/root", "/etc/passwd") == "/root/etc/passwd"
    assert join("/", "x", "../y") == "/y"


@pytest.mark.parametrize(
    ("path", "root", "rest"),
    [
        ("/driver-root/usr", "/driver-root", "/usr"),
        ("/driver-root", "/driver-root", "/"),
        ("/driver-root-old/x", "/driver-root", None),
        ("/usr", "/driver-root", None),
        ("/usr", "/", "/usr"),
        ("/", "/", "/"),
    ],
)
def test_the_rest_below_a_root(path: str, root: str, rest: str | None) -> None:
    assert below(path, root) == rest


def test_depth_counts_slashes() -> None:
    assert [depth(p) for p in ("/a", "/a/b", "/a//b/")] == [1, 2, 2]
