"""Whatever a file holds, it loads or is refused with one line, in bounded time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
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
    start = time.perf_counter()
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
    assert time.perf_counter() - start < 5
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


@pytest.mark.parametrize(
    "data",
    [
        b"a: 1\n" * 20_000,
        b"[" * 20_000,
        b"- " * 20_000,
        b"{" * 20_000,
        b"&a " * 20_000,
        b"'" * 20_000,
        b"x" * 200_000,
        b"9" * 200_000,
        b"flags: {" + b"k: 1, " * 20_000 + b"}",
        b"".join(b"%d: 1\n" % i for i in range(20_000)),
        b"? " * 20_000,
        b"a: &a [" + b"x," * 5_000 + b"]\nb: [" + b"*a," * 5_000 + b"]",
        b"a: &a {"
        + b",".join(b"k%d: 1" % i for i in range(5_000))
        + b"}\nb: {<<: ["
        + b"*a," * 5_000
        + b"]}",
        b"sharing: {mps: {resources: &r ["
        b"{name: gpu, replicas: 2, devices: &d [1,2,3]},"
        + b"{name: gpu, replicas: 2, devices: *d}," * 3_000
        + b"]}}",
        b"#" * 200_000,
        b"\n" * 200_000,
    ],
)
def test_large_files_take_a_bounded_time(data: bytes) -> None:
    attempt(data)
