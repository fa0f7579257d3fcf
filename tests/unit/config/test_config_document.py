from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_device_plugin.config.document import Node, parse_document
from gpu_device_plugin.errors import ConfigError


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Everything holds with libyaml and without it."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader")
    return request.param


def tree(text: str | bytes) -> Any:
    return bare(parse(text))


def parse(text: str | bytes) -> Node:
    return parse_document(text.encode() if isinstance(text, str) else text, "f.yaml").root


def bare(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {key: bare(value) for key, value in node.value.items()}
    if isinstance(node.value, list):
        return [bare(item) for item in node.value]
    return node.value


def error(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n", "~", "null\n", "---\n...\n", "\ufeff"]
)
def test_nothing_is_null(text: str) -> None:
    assert tree(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: [x, 'y', {c: on}]\n", {"a": 1, "b": ["x", "y", {"c": True}]}),
        ('{"a": {"b": [1, 2.5, null, "t"]}}', {"a": {"b": [1, 2.5, None, "t"]}}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("[]", []),
        ("{}", {}),
        ("text", "text"),
        ("a:\n- b:\n  - c\n", {"a": [{"b": ["c"]}]}),
        (
            "a: !!str 1\nb: !!int '2'\nc: ! 3\nd: !own {x: 1}\n",
            {"a": "1", "b": 2, "c": "3", "d": {"x": 1}},
        ),
    ],
)
def test_trees(text: str, expected: Any) -> None:
    assert tree(text) == expected


def test_keys_are_texts() -> None:
    assert tree("1: a\ntrue: b\nn: c\n1.5: d\n'~': e\n2001-01-01: f\n.inf: g\n") == {
        "1": "a",
        "true": "b",
        "false": "c",
        "1.5": "d",
        "~": "e",
        "2001-01-01": "f",
        "inf": "g",
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("~: 1", "null"),
        ("?\n: 1", "null"),
        ("? [a]\n: 1", "a list or a mapping"),
        ("{{}: 1}", "a list or a mapping"),
    ],
)
def test_other_keys_are_refused(text: str, what: str) -> None:
    assert error(text) == f"f.yaml:1: {what} cannot be a key"


def test_of_a_repeated_key_the_last_counts_as_a_whole() -> None:
    root = parse("a: {x: 1}\nb: 2\na: {y: 3}\na: {z: 4}\n")
    assert bare(root) == {"a": {"z": 4}, "b": 2}
    assert root.repeated == [("a", 3), ("a", 4)]


def test_values_stand_where_their_keys_do() -> None:
    root = parse("a:\n  b:\n    - 1\n    -\n      c: 2\n")
    assert isinstance(root.value, dict)
    assert root.value["a"].line == 1
    assert isinstance(root.value["a"].value, dict)
    b = root.value["a"].value["b"]
    assert b.line == 2
    assert isinstance(b.value, list)
    assert [item.line for item in b.value] == [3, 5]


# --- anchors


def test_anchors_and_aliases() -> None:
    root = parse("a: &x {k: [1]}\nb: *x\nc:\n  - *x\n")
    assert bare(root) == {"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}]}
    assert isinstance(root.value, dict)
    assert root.value["b"].line == 2
    assert root.value["a"].anchor is not None
    assert root.value["a"].anchor.used


def test_an_anchor_can_be_used_as_a_key_and_be_set_anew() -> None:
    assert tree("a: &x k\n*x : 1\nb: &x 2\nc: *x\n") == {"a": "k", "k": 1, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: *x", 'f.yaml:1: there is no anchor "x" for this alias'),
        ("a: 1\nb: &x\n  - *x", 'f.yaml:3: the anchor "x" contains itself'),
        ("&x\na: *x", 'f.yaml:2: the anchor "x" contains itself'),
    ],
)
def test_aliases_that_lead_nowhere(text: str, message: str) -> None:
    assert error(text) == message


def test_merge_keys() -> None:
    base = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\n"
    assert tree(base + "z: {<<: *x, b: 9}\n")["z"] == {"a": 1, "b": 9}
    assert tree(base + "z: {b: 9, <<: *x}\n")["z"] == {"a": 1, "b": 2}
    assert tree(base + "z: {<<: [*x, *y]}\n")["z"] == {"a": 1, "b": 2, "c": 4}
    assert tree(base + "z: {<<: {d: 5}}\n")["z"] == {"d": 5}
    assert tree(base + "z: {<<: []}\n")["z"] == {}
    assert tree("'<<': 1") == {"<<": 1}
    assert tree("a: <<") == {"a": "<<"}


def test_a_merged_key_is_no_repetition() -> None:
    root = parse("{<<: {a: 1}, a: 2}")
    assert not root.repeated


@pytest.mark.parametrize("value", ["1", "~", "[1]", "[[{a: 1}]]"])
def test_only_mappings_can_be_merged(value: Any) -> None:
    assert error(f"a: 1\nb: {{<<: {value}}}") == (
        "f.yaml:2: << merges something that is not a mapping "
        "(allowed: a mapping, or a list of them)"
    )


# --- limits


def test_a_billion_laughs_are_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert error("\n".join(lines)).endswith("aliases stand for too large a part of the document")


def test_aliases_may_stand_for_most_of_a_document() -> None:
    assert len(tree("a: &a [1, 2]\nb: [" + "*a, " * 400 + "]")["b"]) == 400


def test_large_documents_may_hold_aliases_but_not_mostly() -> None:
    many = "a: &a [" + "1," * 1000 + "]\n"
    assert error(many + "b: [" + "*a," * 500 + "]").startswith("f.yaml:2: aliases stand for")


@pytest.mark.parametrize("text", ["[" * 101, "{a: " * 101, "- " * 101])
def test_nesting_is_limited(text: str) -> None:
    assert error(text) == "f.yaml:1: nested more than 100 levels deep"


def test_extreme_nesting_is_refused_by_libyaml_or_here() -> None:
    assert "nest" in error("[" * 100_000)


def test_a_hundred_levels_are_allowed() -> None:
    assert tree("[" * 100 + "]" * 100)


@pytest.mark.parametrize("text", ["a: .inf", "a: [1, .nan]", "a: -.Inf", "{<<: {a: .inf}}"])
def test_infinity_is_refused(text: str) -> None:
    assert error(text) == "f.yaml:1: infinity and not-a-number are not allowed"


def test_tags_that_do_not_fit_are_refused() -> None:
    assert error("a:\n  b: !!int x") == 'f.yaml:2: "x" is not a int'


# --- errors of syntax


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("version: [v1\n", "f.yaml:2: not YAML: "),
        ("a: 1\n b: 2\n", "f.yaml:2: not YAML: "),
        ("a: 'x\n", "f.yaml:2: not YAML: "),
        ("a: @x", "f.yaml:1: not YAML: "),
        ("a: }", "f.yaml:1: not YAML: "),
        ("%YAML 9.9\n---\na: 1\n", "f.yaml:"),
        ("%YAML " + "9" * 5000 + ".1\n---\na: 1\n", "f.yaml:"),
        ('a: "\\UFFFFFFFF"', "f.yaml:"),
        ('a: "\\U00110000"', "f.yaml:"),
        ("!<%FF> a", "f.yaml:1: not YAML: "),
        (b"\x01\x02\n", "f.yaml:1: not YAML: "),
        (b"a: \xc3\x28", "f.yaml:1: not YAML: "),
        (b"\xff\xff\xff", "f.yaml:1: not YAML: "),
        (b"\x00", "f.yaml:1: not YAML: "),
        (b"a: \xed\xa0\x80", "f.yaml:1: not YAML: "),
    ],
)
def test_what_is_not_yaml(text: str, where: str) -> None:
    message = error(text)
    assert message.startswith(where)
    assert message.isprintable()


def test_what_only_libyaml_sees_as_go_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert tree('{\n\t"a":\t1\n}') == {"a": 1}
    assert error('a: "\\ud800"').startswith("f.yaml:1: not YAML: ")
    assert error(b"a: 1\n\x01\x02\n").startswith("f.yaml:2: not YAML: ")


def test_tabs_get_a_hint() -> None:
    message = error("a:\n\tb: 1\n")
    assert message.startswith("f.yaml:2: not YAML: ")
    assert message.endswith("(indent with blanks, not tabs)")


def test_utf_16_is_read() -> None:
    assert tree("a: ü".encode("utf-16")) == {"a": "ü"}


# --- several documents


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("a: 1\n", 0),
        ("a: 1\n...\n", 0),
        ("a: 1\n---\nb: [\n", 2),
        ("---\na: 1\n---\n", 3),
        ("a: 1\n...\n@\n", 0),
        ('a: 1\n---\n"\\UFFFFFFFF"\n', 2),
    ],
)
def test_only_the_first_document_is_read(text: str, others: int) -> None:
    document = parse_document(text.encode(), "f.yaml")
    assert bare(document.root) == {"a": 1}
    assert document.others == others
