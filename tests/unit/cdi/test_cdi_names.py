from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.names import (
    annotation,
    check_annotation_prefix,
    device_name_fault,
    kind_fault,
    parse_qualified_name,
    qualified_name,
)
from gpu_device_plugin.cdi.options import Naming
from gpu_device_plugin.errors import ConfigError, RequestError

ID = "12345678-1234-1234-1234-123456780000"
GPU0 = "k8s.device-plugin.nvidia.com/gpu=GPU-0"


def test_a_name_is_put_together() -> None:
    assert qualified_name("gpu", "0:1") == "k8s.device-plugin.nvidia.com/gpu=0:1"
    assert qualified_name("net", "a", vendor="example.com") == "example.com/net=a"


@pytest.mark.parametrize("name", ["0", "0:1", "all", "GPU-1a", "a_b-c.d:e", "A"])
def test_good_device_names(name: str) -> None:
    assert device_name_fault(name) == ""


@pytest.mark.parametrize(
    "name", ["", "MIG-GPU-1/1/0", "-a", "a-", "a b", "a,b", "ü", ":", "a\n", "GPU-0::1:", "a=b"]
)
def test_bad_device_names(name: str) -> None:
    assert repr(name) in device_name_fault(name)


@pytest.mark.parametrize(
    "kind", ["nvidia.com/gpu", "k8s.device-plugin.nvidia.com/imex-channel", "a/b"]
)
def test_good_kinds(kind: str) -> None:
    assert kind_fault(kind) == ""


@pytest.mark.parametrize(
    "kind", ["", "nvidia.com", "/gpu", "a/", "1a/b", "a/1b", "a_/b", "a/b/c", "a b/c"]
)
def test_bad_kinds(kind: str) -> None:
    assert kind_fault(kind)


@given(st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,20}[A-Za-z0-9])?", fullmatch=True))
def test_a_qualified_name_is_taken_apart(device: str) -> None:
    assert parse_qualified_name(qualified_name("gpu", device)) == (
        "k8s.device-plugin.nvidia.com",
        "gpu",
        device,
    )


@given(st.text(max_size=30))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    with suppress(RequestError):
        vendor, cls, device = parse_qualified_name(text)
        assert f"{vendor}/{cls}={device}" == text


def test_a_refusal_is_one_line() -> None:
    with pytest.raises(RequestError) as raised:
        parse_qualified_name("a/b=c\nd")

    assert "\n" not in str(raised.value)


def test_annotation() -> None:
    key, value = annotation(ID, [GPU0, "a/b=c"])

    assert key == f"cdi.k8s.io/nvidia-device-plugin_{ID}"
    assert value == f"{GPU0},a/b=c"


def test_annotation_with_another_prefix_gets_no_slash() -> None:
    assert annotation(ID, [GPU0], "custom.example.com/x-")[0] == (
        f"custom.example.com/x-nvidia-device-plugin_{ID}"
    )
    assert annotation(ID, [GPU0], "")[0] == f"nvidia-device-plugin_{ID}"


@pytest.mark.parametrize("name", ["nvidia.com/gpu=MIG-GPU-0/1/0", "nvidia.com/gpu", "gpu=0", ""])
def test_annotation_refuses_bad_names(name: str) -> None:
    with pytest.raises(RequestError, match=re.escape(repr(name))):
        annotation(ID, [GPU0, name])


@pytest.mark.parametrize("request_id", ["", "a" * 43, "x-", "a b"])
def test_annotation_refuses_bad_ids(request_id: str) -> None:
    with pytest.raises(RequestError, match="annotation key"):
        annotation(request_id, [GPU0])


@pytest.mark.parametrize("prefix", ["cdi.k8s.io/", "", "x", "nvidia.cdi.k8s.io/"])
def test_good_prefixes(prefix: str) -> None:
    check_annotation_prefix(prefix)


@pytest.mark.parametrize("prefix", ["a b", "a\n", "ü/", "\x00"])
def test_bad_prefixes(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix"):
        check_annotation_prefix(prefix)


def test_namings() -> None:
    assert Naming.parse("index") is Naming.INDEX
    with pytest.raises(ConfigError, match=r"invalid device id strategy 'type' \(uuid or index\)"):
        Naming.parse("type")
