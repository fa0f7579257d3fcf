"""Whatever a file holds, it loads or is refused with one line, with work that grows as it does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpu_device_plugin.config.decode import Decoded, decode
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.schema import Key, build, walk
from gpu_device_plugin.errors import ConfigError

KEYS = sorted({key.name for _, key in walk(SCHEMA)})
WORDS = st.sampled_from(
    [
        *KEYS,
        "v1",
        "all",
        "gpu",
        "infinite",
        "60s",
        "<<",
        "x-a",
        "0:1",
        "GPU-",
        "y",
        "~",
        ".inf",
        "4.0",
    ]
)
YAML_TEXT = st.lists(
    st.one_of(
        WORDS,
        st.sampled_from(
            [
                ": ",
                "\n",
                "- ",
                "  ",
                "{",
                "}",
                "[",
                "]",
                ",",
                "&a ",
                "*a",
                "'",
                '"',
                "|\n",
                "? ",
                "#",
                "!!int ",
                "---\n",
                "...\n",
                "\t",
                "%",
                "@",
                "\\",
                "\ufeff",
                "\x85",
                "\u2028",
            ]
        ),
        st.text(max_size=4),
        st.integers().map(str),
    ),
    max_size=40,
).map("".join)


def attempt(data: bytes) -> Decoded | None:
    """Decodes; any exception but ConfigError fails the test."""
    decoded = None
    try:
        decoded = decode(data, "f.yaml")
        build(SCHEMA, decoded.values)
    except ConfigError as error:
        message = str(error)
        assert message.startswith("f.yaml:")
        assert message.isprintable()
        assert len(message) < 1000
    else:
        assert all(str(warning).isprintable() for warning in decoded.warnings)
    return decoded


@pytest.fixture(params=["libyaml", "python"], autouse=True, scope="module")
def scanner(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param == "python":
            monkeypatch.delattr(yaml, "CSafeLoader")
        yield request.param


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_bytes(data: bytes) -> None:
    attempt(data)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_text(text: str) -> None:
    attempt(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=300, deadline=None)
@given(YAML_TEXT)
def test_what_looks_like_yaml(text: str) -> None:
    attempt(text.encode("utf-8", "surrogatepass"))


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
    st.text(max_size=5),
)


def trees(key: Key) -> st.SearchStrategy[Any]:
    """Values that are often right for a key, and often not."""
    if not key.children:
        return LEAVES | st.lists(LEAVES, max_size=3)
    below = {child.name: trees(child) for child in key.children}
    mapping = st.fixed_dictionaries({}, optional=below)
    return st.one_of(mapping, mapping, mapping, st.lists(mapping, max_size=3), LEAVES)


@settings(max_examples=300, deadline=None)
@given(trees(SCHEMA))
def test_trees(tree: Any) -> None:
    attempt(json.dumps(tree).encode())


def integers(tree: Any) -> Iterator[int]:
    if isinstance(tree, dict | list):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from integers(item)
    elif isinstance(tree, int):
        yield tree


@settings(max_examples=100, deadline=None)
@given(trees(SCHEMA))
def test_trees_of_the_same_values_are_decoded_alike(tree: Any) -> None:
    """Written by PyYAML, in block style, with quotes and tags, they mean what they mean as JSON."""
    assume(all(abs(number) < 2**63 for number in integers(tree)))
    as_json = attempt(json.dumps(tree).encode())
    as_yaml = attempt(yaml.safe_dump(tree, allow_unicode=True, default_style='"').encode())
    assert (as_json is None) == (as_yaml is None)
    if as_json is not None and as_yaml is not None:
        assert as_json.values == as_yaml.values


LARGE: list[Callable[[int], bytes]] = [
    lambda n: b"a: 1\n" * n,
    lambda n: b"[" * n,
    lambda n: b"- " * n,
    lambda n: b"{" * n,
    lambda n: b"&a " * n,
    lambda n: b"'" * n,
    lambda n: b"x" * 10 * n,
    lambda n: b"9" * 10 * n,
    lambda n: b"flags: {" + b"k: 1, " * n + b"}",
    lambda n: b"".join(b"%d: 1\n" % i for i in range(n)),
    lambda n: b"? " * n,
    lambda n: b"a: &a [" + b"x," * n + b"]\nb: [" + b"*a," * n + b"]",
    lambda n: (
        b"a: &a {"
        + b",".join(b"k%d: 1" % i for i in range(n))
        + b"}\nb: {<<: ["
        + b"*a," * n
        + b"]}"
    ),
    lambda n: (
        b"sharing: {mps: {resources: &r [{name: gpu, replicas: 2, devices: &d [1,2,3]},"
        + b"{name: gpu, replicas: 2, devices: *d}," * n
        + b"]}}"
    ),
    lambda n: b"#" * 10 * n,
    lambda n: b"\n" * 10 * n,
]


@pytest.mark.parametrize("number", range(len(LARGE)))
def test_large_files_are_decoded_or_refused(number: int) -> None:
    attempt(LARGE[number](5_000))


def calls(data: bytes) -> int:
    """How many functions are called to decode a file: work, independent of the machine."""
    count = 0

    def on_event(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        attempt(data)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("number", range(len(LARGE)))
def test_the_work_grows_no_faster_than_the_file(number: int) -> None:
    small, large = (calls(LARGE[number](n)) for n in (500, 1000))
    assert large <= 2.2 * small + 500
