from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.decode import decode
from gpu_device_plugin.config.model import DeviceSelector
from gpu_device_plugin.config.selectors import to_json
from gpu_device_plugin.errors import ConfigError

UUID = "b1028956-cfa2-0990-bf4a-5da9abb51763"
ITEM = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, devices: %s}]}}"


def selector(text: str) -> DeviceSelector:
    decoded = decode((ITEM % text).encode(), "f.yaml")
    (resource,) = decoded.values["sharing"]["time_slicing"]["resources"]
    found: DeviceSelector = resource.devices
    return found


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        selector(text)
    return str(caught.value).removeprefix("f.yaml:1: sharing.timeSlicing.resources[0].devices")


def listed(*references: str) -> DeviceSelector:
    return DeviceSelector(all=False, references=references)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", DeviceSelector()),
        ("'all'", DeviceSelector()),
        ("2", DeviceSelector(all=False, count=2)),
        ("2.0", DeviceSelector(all=False, count=2)),
        ("0x10", DeviceSelector(all=False, count=16)),
        ("[]", listed()),
        ("[0, '3', 1.0]", listed("0", "3", "1")),
        ("[18446744073709551615]", listed("18446744073709551615")),
        ("['00']", listed("00")),
        ("[0:1, '10:2']", listed("0:1", "10:2")),
        (f"[GPU-{UUID}]", listed(f"GPU-{UUID}")),
        (f"[GPU-{UUID.upper()}]", listed(f"GPU-{UUID.upper()}")),
        (f"[MIG-{UUID}]", listed(f"MIG-{UUID}")),
        (f"[MIG-GPU-{UUID}/1/0]", listed(f"MIG-GPU-{UUID}/1/0")),
        (f"[GPU-{UUID.replace('-', '')}]", listed(f"GPU-{UUID.replace('-', '')}")),
        (f"['GPU-{{{UUID}}}']", listed(f"GPU-{{{UUID}}}")),
        (f"[GPU-urn:uuid:{UUID}]", listed(f"GPU-urn:uuid:{UUID}")),
    ],
)
def test_ways_to_select_devices(text: str, expected: DeviceSelector) -> None:
    assert selector(text) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("some", 'the text "some"'),
        ("All", 'the text "All"'),
        ("'2'", 'the text "2"'),
        ("0", "the number 0"),
        ("-1", "the number -1"),
        ("1.5", "the number 1.5"),
        ("9223372036854775808", "the number 9223372036854775808"),
        ("true", "the boolean true"),
        ("{a: 1}", "a mapping"),
        ("null", "null"),
    ],
)
def test_other_values_select_nothing(text: str, shown: str) -> None:
    assert error(text) == (
        f": {shown} selects no devices (allowed: all, a positive number, or a list of indices of "
        "GPUs, indices of MIG devices as 0:1, and UUIDs)"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-1", "the number -1"),
        ("1.5", "the number 1.5"),
        ("18446744073709551616", "the number 1.8446744073709552e+19"),
        ("foo", 'the text "foo"'),
        ("'+1'", 'the text "+1"'),
        ("''", 'the text ""'),
        ("'0:1:2'", 'the text "0:1:2"'),
        ("'0:'", 'the text "0:"'),
        ("'٣'", 'the text "٣"'),
        ("GPU-xyz", 'the text "GPU-xyz"'),
        (f"gpu-{UUID}", f'the text "gpu-{UUID}"'),
        (f"'GPU-{UUID}\n'", f'the text "GPU-{UUID} "'),
        (f"MIG-GPU-{UUID}/1", f'the text "MIG-GPU-{UUID}/1"'),
        (f"MIG-GPU-{UUID}", f'the text "MIG-GPU-{UUID}"'),
        ("[0]", "a list"),
        ("{a: 1}", "a mapping"),
        ("null", "null"),
        ("true", "the boolean true"),
    ],
)
def test_items_that_refer_to_no_device(text: str, shown: str) -> None:
    assert error(f"[0, {text}]") == (
        f"[1]: {shown} refers to no device "
        "(allowed: indices of GPUs, indices of MIG devices as 0:1, and UUIDs)"
    )


REFERENCES = st.one_of(
    st.from_regex("[0-9]{1,3}(:[0-9])?", fullmatch=True),
    st.uuids().map("GPU-{}".format),
    st.uuids().map("MIG-{}".format),
    st.builds("MIG-GPU-{}/{}/{}".format, st.uuids(), st.integers(0, 9), st.integers(0, 9)),
)
SELECTORS = st.one_of(
    st.just(DeviceSelector()),
    st.builds(DeviceSelector, all=st.just(False), count=st.integers(1, 2**63 - 1)),
    st.builds(
        DeviceSelector, all=st.just(False), references=st.lists(REFERENCES, max_size=4).map(tuple)
    ),
)


@given(SELECTORS)
def test_what_is_written_is_read_back(devices: DeviceSelector) -> None:
    assert selector(json.dumps(to_json(devices))) == devices
