"""ConfigMaps and manifests: what is a configuration, and the lines of its problems."""

from __future__ import annotations

import base64
import json

import pytest
from support.diagnosis import findings_of, lines_of, result_of

from gpu_device_plugin.diagnosis.findings import Severity

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: configs}\n"
BAD = "flags:\n  migStrategy: mxied\n"


def indented(text: str, blanks: int) -> str:
    return "".join(f"{' ' * blanks}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("header", ["|", "|-", "|+", "|4", "| # a comment"])
def test_lines_in_a_literal_text_are_those_of_the_manifest(header: str) -> None:
    text = f"{HEAD}data:\n  a.yaml: {header}\n{indented(BAD, 6 if header == '|4' else 4)}"

    (found,) = findings_of(text)
    assert found.place.line == 7
    assert found.place.path == "flags.migStrategy"
    assert found.subject == "ConfigMap configs, a.yaml"


def test_blank_lines_and_comments_before_the_text_count() -> None:
    text = f"{HEAD}data:\n  a.yaml: |\n\n    # a comment\n\n{indented(BAD, 4)}"

    assert [f.place.line for f in findings_of(text)] == [10]


@pytest.mark.parametrize(
    "value",
    [
        json.dumps(BAD),
        f">\n{indented('flags: {migStrategy: mxied}', 4)}",
        "'flags: {migStrategy: m}'",
    ],
)
def test_other_texts_are_at_the_line_of_their_key(value: str) -> None:
    assert [f.place.line for f in findings_of(f"{HEAD}data:\n  a.yaml: {value}\n")] == [5]


def test_not_yaml_inside_a_config_map_is_told_with_its_line() -> None:
    (found,) = findings_of(f"{HEAD}data:\n  a.yaml: |\n    flags: {{\n    sharing: ]\n")

    assert found.place.line in {6, 7}
    assert found.message.startswith("not YAML")


def test_every_key_of_every_config_map_in_every_document_and_list_is_read() -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"x": BAD}}
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [item, {**item, "kind": "ConfigMapList"}],
    }
    text = f"{HEAD}data:\n  a: |\n{indented(BAD, 4)}  b: |\n{indented(BAD, 4)}---\n{json.dumps(listed)}"

    result = result_of(text)

    assert [f.subject for f in result.findings] == [
        "ConfigMap configs, a",
        "ConfigMap configs, b",
        "ConfigMap b, x",
    ]
    assert result.configurations == 3


def test_a_document_that_is_no_yaml_does_not_hide_the_others() -> None:
    text = f"{HEAD}data: {{\n---\n{HEAD}data:\n  a: |\n{indented(BAD, 4)}---\na: [\n"

    assert [(f.place.line, f.place.path) for f in findings_of(text)] == [
        (5, ""),
        (12, "flags.migStrategy"),
        (14, ""),
    ]


def test_binary_data_is_read_too() -> None:
    encoded = base64.b64encode(BAD.encode()).decode()

    (found,) = findings_of(f"{HEAD}binaryData: {{a: {encoded}}}\n")
    assert found.place.line == 4
    assert found.place.path == "flags.migStrategy"


def test_values_of_a_config_map_that_are_no_texts_are_errors() -> None:
    text = f"{HEAD}data:\n  a: {{flags: {{}}}}\n  b: 'flags: {{}}'\nbinaryData: {{c: '&'}}\n"

    assert [line.partition("configs: ")[2] for line in lines_of(text)] == [
        "data.a: the value of a is not a text (begin it with | and indent it)",
        "binaryData.c: the value of c is not base64",
    ]


def test_config_maps_about_something_else_are_left_alone() -> None:
    (found,) = findings_of(f"{HEAD}data:\n  nginx.conf: |\n    server: {{}}\n    version: 1\n")

    assert found.severity is Severity.NOTE
    assert "not checked" in found.message
    assert not findings_of(HEAD)


def test_a_config_map_that_a_foreign_pod_mounts_is_left_alone() -> None:
    pod = """\
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers: [{name: nginx, image: nginx}]
  volumes: [{name: v, configMap: {name: configs}}]
"""
    assert not findings_of(f"{HEAD}data:\n  a: 'flags: {{a: 1}}'\n{pod}")


def test_values_of_a_chart_are_told_and_their_configurations_are_checked() -> None:
    text = f"config:\n  map:\n    any: |\n{indented(BAD, 6)}    other: {{version: v1}}\ngfd: {{}}\n"

    note, error = findings_of(text)
    assert note.severity is Severity.WARNING
    assert "helm template" in note.hint
    assert (error.place.line, error.subject) == (5, "config.map.any")


def test_a_template_that_is_not_rendered_is_told() -> None:
    (found,) = findings_of("{{- if .Values.x }}\nkind: ConfigMap\n{{- end }}\n")

    assert "a template has to be rendered first" in found.message


def test_a_first_document_that_is_empty_does_not_hide_manifests() -> None:
    text = f"---\n# Source: x\n---\n{HEAD}data:\n  a: |\n{indented(BAD, 4)}"

    assert [f.place.line for f in findings_of(text)] == [10]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: [a]\n",
        "apiVersion: v1\nkind: List\nitems: {a: 1}\n",
        "apiVersion: v1\nkind: Pod\nspec: 5\n",
        "apiVersion: v1\nkind: DaemonSet\nspec: {template: {spec: {containers: [1, {}, null]}}}\n",
        "apiVersion: v1\nkind: ConfigMap\ndata: [1]\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: 1\ndata: null\n",
    ],
)
def test_objects_of_strange_forms_are_left_to_kubernetes(text: str) -> None:
    assert not findings_of(text)


def test_findings_are_in_the_order_of_files_and_lines() -> None:
    lines = lines_of(BAD, f"{HEAD}data:\n  a: |\n{indented(BAD, 4)}", BAD)

    assert [line.split(":")[1].strip() for line in lines] == ["0.yaml", "1.yaml", "2.yaml"]


def test_a_document_of_bytes_that_are_no_text_ends_the_file() -> None:
    (found,) = findings_of(f"{HEAD}---\napiVersion: v1\nkind: \x07Pod\n---\na: 1\n")

    assert found.message.startswith("not YAML")
    assert found.place.line == 6


def test_documents_beside_many_that_are_no_yaml_are_read_at_their_lines() -> None:
    bad = "---\nkind: a: b\n"
    good = f"---\n{HEAD}data:\n  a.yaml: |\n{indented(BAD, 4)}"
    found = findings_of(bad * 5000 + good + bad)

    assert len(found) == 5002
    assert [f.place.line for f in found[:2]] == [2, 4]
    ours = next(f for f in found if f.subject)
    assert (ours.place.line, ours.place.path) == (10_000 + 8, "flags.migStrategy")
    assert found[-1].place.line == 10_000 + 8 + 2


def test_what_is_no_text_spoils_only_its_own_document() -> None:
    """libyaml reads ahead, and so notices it documents before it comes to it."""
    good = f"---\n{HEAD}data:\n  a.yaml: |\n{indented(BAD, 4)}"
    found = findings_of(f"{good}---\nkind: \0\n{good}")

    assert [f.place.line for f in found] == [8, 10, 18]
