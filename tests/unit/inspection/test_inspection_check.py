"""What is found in specification files, and that it is what runtimes refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.inspection.samples import KIND, broken_specs, minimal, specs, values

from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.cdi.reader import parse_spec
from gpu_device_plugin.cdi.validate import faults
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.check import Checked, check_data, check_file, conflict_findings
from gpu_device_plugin.inspection.files import SpecFile
from gpu_device_plugin.inspection.findings import Severity


def check(value: object, file: str = "s.json") -> Checked:
    return check_data(json.dumps(value).encode(), file, None)


def lines(checked: Checked) -> list[str]:
    return [str(finding) for finding in checked.findings]


def is_taken(data: bytes, file: str) -> bool:
    try:
        parse_spec(data, file)
    except ConfigError:
        return False
    return True


# ------------------------------------------------------------------ examples

YAML = f"""\
cdiVersion: "0.3.0"
kind: {KIND}
devices:
  - name: "-0"
    containerEdits:
      deviceNodes:
        - path: dev/nvidia0
          hostPth: /dev/nvidia0
          permissions: rwx
          minor: -1
  - name: a
    containerEdits:
      hooks:
        - hookName: createContainer
          env: [DEBUG]
  - name: a
    containerEdits: {{mounts: [{{hostPath: /x}}]}}
    name: a
  - containerEdits: {{deviceNodes: [{{path: /dev/a, hostPath: /dev/b}}]}}
    name: 7
containerEdits:
  additionalGids: [44, -1, x]
---
second: document
"""


def test_every_problem_has_its_line_and_its_path() -> None:
    assert lines(check_data(YAML.encode(), "s.yaml", None)) == [
        (
            "error: s.yaml:1: cdiVersion: is 0.3.0, but additionalGids or intelRdt needs 0.7.0 "
            "(say 0.7.0)"
        ),
        (
            "error: s.yaml:4: devices[0].name: device name '-0' must begin and end with a letter or "
            "digit and hold only letters, digits, '_', '-', '.' and ':'"
        ),
        (
            'warning: s.yaml:7: devices[0].containerEdits.deviceNodes[0].path: "dev/nvidia0" is not '
            "an absolute path"
        ),
        (
            "error: s.yaml:8: devices[0].containerEdits.deviceNodes[0].hostPth: "
            "is not a known field (did you mean hostPath?)"
        ),
        (
            'error: s.yaml:9: devices[0].containerEdits.deviceNodes[0].permissions: "rwx" is not '
            "allowed (letters of rwm)"
        ),
        (
            "warning: s.yaml:10: devices[0].containerEdits.deviceNodes[0].minor: is negative, which "
            "newer runtimes refuse"
        ),
        "error: s.yaml:14: devices[1].containerEdits.hooks[0].path: is missing",
        'error: s.yaml:15: devices[1].containerEdits.hooks[0].env[0]: "DEBUG" is not NAME=value',
        "error: s.yaml:17: devices[2].containerEdits.mounts[0].containerPath: is missing",
        "error: s.yaml:18: devices[2].name: is given twice (keep one of them)",
        'error: s.yaml:18: devices[2].name: "a" is the name of devices[1], too',
        "error: s.yaml:20: devices[3].name: must be a text (put it in quotes)",
        (
            "error: s.yaml:22: containerEdits.additionalGids[1]: "
            "must be a whole number from 0 to 4294967295"
        ),
        (
            "error: s.yaml:22: containerEdits.additionalGids[2]: "
            "must be a whole number from 0 to 4294967295"
        ),
        (
            "warning: s.yaml:23: a second document begins here, which runtimes ignore "
            "(one file for each specification)"
        ),
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "error: s.json: is empty (a CDI specification)"),
        ([], "error: s.json:1: must be an object"),
        ("x", "error: s.json:1: must be an object"),
        ({**minimal(), "devices": []}, "error: s.json:1: devices: has no device (runtimes want"),
        ({**minimal(), "devices": {}}, "error: s.json:1: devices: must be a list"),
        ({**minimal(), "cdiVersion": "9"}, 'error: s.json:1: cdiVersion: unknown CDI version "9"'),
        ({**minimal(), "cdiVersion": ""}, "error: s.json:1: cdiVersion: is missing (allowed: 0."),
        ({**minimal(), "kind": "gpu"}, "error: s.json:1: kind: 'gpu' is not of the form VENDOR/"),
        ({**minimal(), "CdiVersion": "1"}, "known field (did you mean cdiVersion?)"),
        ({**minimal(), "zzz": 1}, "zzz: is not a known field (allowed: cdiVersion, kind, ann"),
        ({**minimal(), "annotations": {"a b": ""}}, 'annotations: "a b" is no key of an annotat'),
        ({**minimal(), "annotations": {"a": 1}}, "annotations.a: must be a text (put it in quot"),
        ({**minimal(), "annotations": {"a": "x" * (256 << 10)}}, "holds 262145 bytes (allowed:"),
        (minimal(env=[]), "devices[0].containerEdits: adds nothing to a container (leave"),
        (minimal(env=[None]), "env[0]: must be a text"),
        (minimal(netDevices=[{"name": "a"}]), "netDevices[0].hostInterfaceName: is missing"),
        (
            minimal(
                netDevices=[
                    {"name": "a", "hostInterfaceName": "x"},
                    {"name": "a", "hostInterfaceName": "y"},
                ]
            ),
            'netDevices[1].name: "a" is given twice',
        ),
        (minimal(deviceNodes=[{"path": "/x", "type": "z"}]), 'type: unknown type "z" (allowed: b'),
        (minimal(hooks=[{"hookName": "start", "path": "/x"}]), 'unknown hook "start" (allowed: cr'),
        (minimal(hooks=[{"path": "/x"}]), "hooks[0].hookName: is missing (allowed: createCont"),
        (minimal(intelRdt={"closID": "a/b"}), '"a/b" is not the name of a directory'),
        (minimal(intelRdt={"enableMonitoring": 1}), "enableMonitoring: must be true or false"),
    ],
)
def test_what_is_wrong_is_told(value: object, expected: str) -> None:
    found = lines(check(value))

    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("version", "edits"),
    [
        ("0.4.0", {"mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "bind"}]}),
        ("0.5.0", {"deviceNodes": [{"path": "/a", "hostPath": "/a"}]}),
        ("0.7.0", {"intelRdt": {}}),
        ("1.1.0", {"intelRdt": {"schemata": ["x"]}}),
        ("1.1.0", {"netDevices": [{"name": "a", "hostInterfaceName": "b"}]}),
    ],
)
def test_the_version_that_is_needed_is_told_with_the_reason(
    version: str, edits: dict[str, Any]
) -> None:
    found = lines(check({**minimal(**edits), "cdiVersion": "0.3.0"}))

    assert len(found) == 1
    assert found[0].startswith("error: s.json:1: cdiVersion: is 0.3.0, but ")
    assert found[0].endswith(f" needs {version} (say {version})")


@pytest.mark.parametrize(
    ("file", "data", "expected"),
    [
        ("s.json", b"", "error: s.json: is empty (a CDI specification)"),
        ("s.json", b'{"a":', "error: s.json:1: not JSON: column 6: Expecting value (name it .ya"),
        ("s.json", b'{"a":"\\ud800\\udc00"}', "error: s.json:1: not YAML: "),
        ("s.json", b"\xff", "error: s.json:1: not YAML: invalid"),
        ("s.yaml", b"a: &a [*a]", "error: s.yaml:1: the anchor"),
        ("s.yaml", b"[" * 200, "error: s.yaml:1: nested more than"),
    ],
)
def test_what_cannot_be_parsed_is_told_in_one_line(file: str, data: bytes, expected: str) -> None:
    found = lines(check_data(data, file, None))

    assert len(found) == 1
    assert found[0].startswith(expected)


def test_yaml_in_a_json_file() -> None:
    data = b"# comment\n" + json.dumps(minimal()).encode()

    assert lines(check_data(data, "s.yaml", None)) == []
    assert lines(check_data(data, "s.json", None)) == [
        "error: s.json:1: not JSON: column 1: Expecting value (name it .yaml if it is YAML)"
    ]


def test_files_that_runtimes_do_not_read(tmp_path: Path) -> None:
    other = tmp_path / "s.yml"
    other.write_text(json.dumps(minimal()))

    checked = check_file(str(other), None)

    assert lines(checked) == [
        (
            f"warning: {other}: runtimes do not read a file of this name "
            "(runtimes read .json and .yaml files)"
        )
    ]
    assert checked.spec is not None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "d.json").mkdir()

    for name in ("none.json", "d.json", "nul\0.json"):
        checked = check_file(str(tmp_path / name), None)
        assert [f.severity for f in checked.findings] == [Severity.ERROR]
        assert "cannot be read: " in lines(checked)[0]
        assert "\0" not in lines(checked)[0]


def test_one_name_in_several_files() -> None:
    data = json.dumps(minimal()).encode()
    files = [("/1/a.json", 0), ("/2/a.json", 1), ("/2/b.json", 1), ("/2/c.json", 1)]
    checked = [(SpecFile(f, p), check_data(data, f, None)) for f, p in files[:2]]

    assert [str(f) for f in conflict_findings(checked)] == [
        f"warning: /1/a.json: {KIND}=a is overridden by /2/a.json"
    ]
    checked = [(SpecFile(f, p), check_data(data, f, None)) for f, p in files]
    found = [str(f) for f in conflict_findings(checked)]
    assert len(found) == 4
    assert found[1] == (
        f"error: /2/a.json: {KIND}=a is in /1/a.json, /2/b.json, /2/c.json, too: "
        "no runtime resolves it (remove one of the files)"
    )


# ------------------------------------------------------------------ properties


@settings(max_examples=60, deadline=None)
@given(specs(), st.sampled_from(["s.json", "s.yaml"]))
def test_nothing_is_wrong_with_what_is_written(spec: Spec, file: str) -> None:
    text = spec.to_json() if file.endswith(".json") else spec.to_yaml()

    checked = check_data(text.encode(errors="replace"), file, None)

    assert [f for f in checked.findings if f.severity is Severity.ERROR] == []
    assert checked.spec is not None
    assert checked.spec.names == spec.names


@settings(deadline=None)
@given(broken_specs)
def test_the_verdict_is_that_of_the_writer(spec: Spec) -> None:
    errors = check(spec.to_dict()).count(Severity.ERROR)

    assert bool(errors) == bool(list(faults(spec)))


@st.composite
def changed(draw: st.DrawFn) -> object:
    """A specification in which one value is replaced by anything at all."""
    root = [json.loads(json.dumps(draw(specs()).to_dict()))]
    parent: Any = root
    while True:
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        key = draw(st.sampled_from(keys))
        child = parent[key]
        if not isinstance(child, dict | list) or not child or draw(st.booleans()):
            parent[key] = draw(values)
            return root[0]
        parent = child


@settings(max_examples=60, deadline=None)
@given(changed())
def test_the_verdict_is_that_of_the_reader(value: object) -> None:
    data = json.dumps(value, ensure_ascii=False).encode()

    checked = check_data(data, "s.json", None)

    if is_taken(data, "s.json"):
        # The reader knows no rules for annotations and for the names of intelRdt.
        assert all("annotations" in line or "closID" in line for line in errors_of(checked))
    else:
        assert checked.spec is None
        assert errors_of(checked)


def errors_of(checked: Checked) -> list[str]:
    return [str(f) for f in checked.findings if f.severity is Severity.ERROR]


@settings(max_examples=60, deadline=None)
@given(st.binary() | st.text().map(str.encode) | specs().map(lambda s: s.to_yaml().encode()[:-40]))
def test_hostile_bytes_are_told_of_in_lines(data: bytes) -> None:
    for file in ("s.json", "s.yaml"):
        checked = check_data(data, file, None)

        assert (checked.spec is None) == bool(checked.count(Severity.ERROR))
        assert all(line.isprintable() for line in lines(checked))
