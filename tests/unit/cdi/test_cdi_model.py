"""Text of specifications, the version that they need, and reading them again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
    merge,
)
from gpu_device_plugin.cdi.reader import parse_spec
from gpu_device_plugin.cdi.validate import HOOK_NAMES, faults, validate
from gpu_device_plugin.cdi.version import KNOWN_VERSIONS, is_at_least, minimum_version
from gpu_device_plugin.errors import ConfigError

KIND = "k8s.device-plugin.nvidia.com/gpu"
NODE = ContainerEdits(device_nodes=(DeviceNode("/dev/nvidia0"),))


def spec_of(*devices: Device, kind: str = KIND, edits: ContainerEdits | None = None) -> Spec:
    return Spec("0.3.0", kind, devices or (Device("a", NODE),), edits or ContainerEdits())


def test_empty_fields_are_left_out_but_edits() -> None:
    assert spec_of().to_json() == (
        '{"cdiVersion":"0.3.0","kind":"k8s.device-plugin.nvidia.com/gpu","devices":[{"name":"a",'
        '"containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}}],"containerEdits":{}}'
    )


def test_numbers_that_are_zero() -> None:
    node = DeviceNode("/dev/x", major=0, minor=0, file_mode=0, uid=0, gid=0)

    assert node.to_dict() == {"path": "/dev/x", "fileMode": 0, "uid": 0, "gid": 0}


def test_text_is_escaped_as_go_escapes_it() -> None:
    text = spec_of(edits=ContainerEdits(env=('A=<&>\u2028\u2029"\\ü\n',))).to_json()

    assert r'"A=\u003c\u0026\u003e\u2028\u2029\"\\ü\n' + "" in text
    assert "\n" not in text


def test_names_are_qualified() -> None:
    assert spec_of(Device("0", NODE), Device("0:1", NODE)).names == (f"{KIND}=0", f"{KIND}=0:1")


def test_parts_are_merged_in_order() -> None:
    first = ContainerEdits(env=("A=1",), additional_gids=(1,), intel_rdt=IntelRdt("x"))
    second = ContainerEdits(env=("A=1", "B=2"), hooks=(Hook("poststop", "/h"),))

    assert merge(first, second) == ContainerEdits(
        env=("A=1", "A=1", "B=2"),
        hooks=(Hook("poststop", "/h"),),
        additional_gids=(1,),
        intel_rdt=IntelRdt("x"),
    )


EDITS_FOR_VERSION = [
    ("0.3.0", NODE),
    ("0.4.0", ContainerEdits(mounts=(Mount("/a", "/b", type="bind"),))),
    ("0.5.0", ContainerEdits(device_nodes=(DeviceNode("/a", host_path="/a"),))),
    ("0.7.0", ContainerEdits(additional_gids=(44,))),
    ("0.7.0", ContainerEdits(intel_rdt=IntelRdt())),
    ("1.1.0", ContainerEdits(intel_rdt=IntelRdt(schemata=("L3:0=f",)))),
    ("1.1.0", ContainerEdits(intel_rdt=IntelRdt(enable_monitoring=True))),
    ("1.1.0", ContainerEdits(net_devices=(NetDevice("eth0", "net0"),))),
]


@pytest.mark.parametrize(("version", "edits"), EDITS_FOR_VERSION)
def test_version_that_edits_need(version: str, edits: ContainerEdits) -> None:
    assert minimum_version(spec_of(edits=edits)) == version
    assert minimum_version(spec_of(Device("a", NODE), Device("b", edits))) == version


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("0.5.0", spec_of(Device("0", NODE))),
        ("0.6.0", spec_of(kind="nvidia.com/gpu.x")),
        ("0.6.0", spec_of(Device("a", NODE, {"x": "y"}))),
        ("0.6.0", replace(spec_of(), annotations={"x": "y"})),
    ],
)
def test_version_that_names_and_annotations_need(version: str, spec: Spec) -> None:
    assert minimum_version(spec) == version


@given(st.lists(st.sampled_from(EDITS_FOR_VERSION), min_size=1, max_size=6))
def test_version_is_that_of_the_newest_part(parts: list[tuple[str, ContainerEdits]]) -> None:
    needed = minimum_version(spec_of(*(Device("a", edits) for _, edits in parts)))

    assert all(is_at_least(needed, version) for version, _ in parts)
    assert needed in {version for version, _ in parts}


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
FILLED = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,6}[A-Za-z0-9])?", fullmatch=True)
ENV = st.builds(lambda name, value: f"{name}={value}", st.sampled_from(["A", "B_C"]), TEXT)
UINT32 = st.integers(0, (1 << 32) - 1)
NODES = st.builds(
    DeviceNode,
    path=FILLED,
    host_path=TEXT,
    type=st.sampled_from(["", "b", "c", "u", "p"]),
    major=st.integers(0, 1 << 40),
    minor=st.integers(0, 1 << 40),
    file_mode=st.none() | UINT32,
    permissions=st.sampled_from(["", "r", "rwm"]),
    uid=st.none() | UINT32,
    gid=st.none() | UINT32,
)
HOOKS = st.builds(
    Hook,
    hook_name=st.sampled_from(sorted(HOOK_NAMES)),
    path=FILLED,
    args=st.lists(TEXT, max_size=3).map(tuple),
    env=st.lists(ENV, max_size=2).map(tuple),
    timeout=st.none() | st.integers(-9, 1 << 40),
)
MOUNTS = st.builds(Mount, FILLED, FILLED, st.lists(TEXT, max_size=3).map(tuple), TEXT)
RDTS = st.builds(IntelRdt, TEXT, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple), st.booleans())
EDITS = st.builds(
    ContainerEdits,
    env=st.lists(ENV, max_size=2).map(tuple),
    device_nodes=st.lists(NODES, max_size=2).map(tuple),
    net_devices=st.lists(st.builds(NetDevice, FILLED, FILLED), max_size=1).map(tuple),
    hooks=st.lists(HOOKS, max_size=2).map(tuple),
    mounts=st.lists(MOUNTS, max_size=2).map(tuple),
    intel_rdt=st.none() | RDTS,
    additional_gids=st.lists(UINT32, max_size=3).map(tuple),
)
DEVICES = st.builds(
    Device, NAMES, EDITS.filter(lambda e: e != ContainerEdits()), st.dictionaries(TEXT, TEXT)
)
SPECS = st.builds(
    lambda kind, devices, edits, annotations: Spec("0", kind, tuple(devices), edits, annotations),
    st.sampled_from([KIND, "a/b.c"]),
    st.lists(DEVICES, min_size=1, max_size=3, unique_by=lambda d: d.name),
    EDITS,
    st.dictionaries(TEXT, TEXT, max_size=2),
).map(lambda spec: replace(spec, version=minimum_version(spec)))


@settings(deadline=None)
@given(SPECS)
def test_what_is_written_is_read_again(spec: Spec) -> None:
    assert parse_spec(spec.to_json().encode(), "spec.json") == spec


@settings(deadline=None, max_examples=25)
@given(SPECS)
def test_what_is_written_as_yaml_is_read_again(spec: Spec) -> None:
    assert parse_spec(spec.to_yaml().encode(), "spec.yaml") == spec


GOOD = json.loads(spec_of().to_json())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cdiVersion": "0.9.0"}, "unknown CDI version '0.9.0'"),
        ({"cdiVersion": 1}, "cdiVersion must be a text"),
        ({"kind": "gpu"}, "'gpu' is not of the form VENDOR/CLASS"),
        ({"kind": "1/gpu"}, "vendor '1' must begin with a letter"),
        ({"devices": []}, "no devices"),
        ({"devices": {}}, "devices must be a list"),
        ({"devices": [None]}, "devices[0] must be an object"),
        ({"devices": [{"name": "a"}]}, "device 'a' adds nothing to a container"),
        ({"devices": GOOD["devices"] * 2}, "two devices named 'a'"),
        ({"devices": [{"name": "0", **GOOD["devices"][0]} | {"name": "0"}]}, "needs 0.5.0"),
        ({"devices": [GOOD["devices"][0] | {"name": "a/b"}]}, "device name 'a/b'"),
        ({"containerEdits": {"env": ["=x"]}}, "environment entry '=x' is not NAME=value"),
        ({"containerEdits": {"env": "A=b"}}, "containerEdits.env must be a list"),
        ({"containerEdits": {"env": [1]}}, "containerEdits.env[0] must be a text"),
        ({"containerEdits": {"mount": []}}, "containerEdits.mount is not a known field"),
        ({"containerEdits": {"mounts": [{"hostPath": "/a"}]}}, "has an empty path"),
        ({"containerEdits": {"deviceNodes": [{"path": ""}]}}, "device node with an empty path"),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "type": "x"}]}}, "unknown type 'x'"),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "permissions": "x"}]}}, "'rwm'"),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "major": 1.5}]}}, "whole number"),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "gid": -1}]}}, "from 0 to 4294967295"),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "uid": True}]}}, "whole number"),
        ({"containerEdits": {"hooks": [{"hookName": "x", "path": "/a"}]}}, "unknown hook name 'x'"),
        ({"containerEdits": {"hooks": [{"hookName": "poststop"}]}}, "has an empty path"),
        (
            {"cdiVersion": "1.1.0", "containerEdits": {"netDevices": [{"name": "a"}]}},
            "network device without a name",
        ),
        ({"containerEdits": {"intelRdt": []}}, "containerEdits.intelRdt must be an object"),
        ({"containerEdits": {"intelRdt": {"enableMonitoring": 1}}}, "must be true or false"),
        ({"annotations": {"a": 1}}, "annotations.a must be a text"),
        ({"annotations": []}, "annotations must be a mapping"),
        ({"extra": 1}, "extra is not a known field"),
    ],
)
def test_faults_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_spec(json.dumps(GOOD | change).encode(), "/x/spec.json")

    assert str(raised.value).startswith(("/x/spec.json: ", "CDI specification /x/spec.json: "))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"[", b"{}", b"null", b"[1]", b"\xff", b'{"a":' * 5000, b"a: [", b"*x", b"1: 2", b"%"],
)
@pytest.mark.parametrize("source", ["x.json", "x.yaml"])
def test_what_is_no_specification_is_refused_in_one_line(data: bytes, source: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_spec(data, source)

    assert "\n" not in str(raised.value)


@given(st.binary(max_size=60), st.sampled_from(["x.json", "x.yaml"]))
def test_any_bytes(data: bytes, source: str) -> None:
    with suppress(ConfigError):
        parse_spec(data, source)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "devices", "containerEdits", "env", "path", "mounts"]), inner
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(["devices", "containerEdits", "annotations", "kind"]), JSON)
def test_any_value_in_any_place(key: str, value: object) -> None:
    with suppress(ConfigError):
        validate(parse_spec(json.dumps(GOOD | {key: value}).encode(), "x.json"))


def test_both_forms_are_read() -> None:
    spec = spec_of()

    assert parse_spec(spec.to_json().encode(), "a.json") == spec
    assert parse_spec(spec.to_yaml().encode(), "a.yaml") == spec


def test_every_fault_is_found() -> None:
    broken = Spec("0.3.0", "x", (), ContainerEdits(env=("",), mounts=(Mount("", ""),)))

    assert len(list(faults(broken))) == 4


def test_known_versions_are_in_order() -> None:
    assert is_at_least("1.1.0", "0.3.0")
    assert not is_at_least("0.8.0", "1.0.0")
    assert KNOWN_VERSIONS[-1] == "1.1.0"


@pytest.mark.parametrize(
    "text", ["y", "N", "1e3", "0x1f", "0o17", "1_000", "+5", ".inf", "yes", "1"]
)
def test_text_that_go_would_take_for_something_else_is_quoted(text: str) -> None:
    mount = ContainerEdits(mounts=(Mount("/a", "/b", options=(text,)),))

    assert f"- '{text}'" in spec_of(edits=mount).to_yaml()


def test_characters_that_yaml_does_not_have_are_escaped_in_json() -> None:
    edits = ContainerEdits(env=("A=\x7f\x85é",))

    assert '"A=\\u007f\\u0085é"' in spec_of(edits=edits).to_json()
    assert json.loads(spec_of(edits=edits).to_json()) == spec_of(edits=edits).to_dict()
