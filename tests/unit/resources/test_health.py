"""Which events count, and which devices they hit."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.config.model import HealthSettings, MonitorFailure, XidAction
from gpu_device_plugin.hardware.model import HealthEvent, HealthKind
from gpu_device_plugin.resources.health import HealthPolicy, XidList, devices_hit
from gpu_device_plugin.resources.model import Device
from gpu_device_plugin.resources.xids import describe_xid


def policy(disable: str = "", enable: str = "") -> HealthPolicy:
    return HealthPolicy.of({"DP_DISABLE_HEALTHCHECKS": disable, "DP_ENABLE_HEALTHCHECKS": enable})


def ignored(policy: HealthPolicy) -> set[int]:
    return {
        x
        for x in (0, 13, 31, 43, 45, 48, 63, 68, 74, 79, 94, 109, 119)
        if policy.action(x) is XidAction.IGNORE
    }


BUILT_IN = {13, 31, 43, 45, 68, 109}
ALL = {0, 13, 31, 43, 45, 48, 63, 68, 74, 79, 94, 109, 119}


@pytest.mark.parametrize(
    ("disable", "enable", "ignores", "off"),
    [
        ("", "", BUILT_IN, False),
        ("79,48", "", BUILT_IN | {79, 48}, False),
        (" 79 , 48 ,", "", BUILT_IN | {79, 48}, False),
        ("79,x,-3,48,0x3f", "", BUILT_IN | {79, 48}, False),
        ("79,48", "31", BUILT_IN - {31} | {79, 48}, False),
        ("79,80", "80,13", BUILT_IN - {13} | {79}, False),
        ("79,48", "all", set(), False),
        ("all", "", ALL, True),
        ("XIDs", "", ALL, True),
        ("79,all", "", ALL, True),
        ("all", "all", set(), False),
        ("all", "63", ALL - {63}, False),
        ("0", "", BUILT_IN | {0}, False),
        ("", "0", BUILT_IN, False),
        ("all", "0", ALL - {0}, False),
    ],
)
def test_the_two_variables_make_the_policy(disable, enable, ignores, off):
    got = policy(disable, enable)

    assert ignored(got) == ignores
    assert got.is_off is off


def test_an_absent_variable_is_an_empty_one():
    assert HealthPolicy.of({}) == policy()


def test_words_that_are_no_xid_are_named(caplog):
    with caplog.at_level(logging.WARNING):
        policy("79, x ,18446744073709551616")

    assert [r.getMessage().split(" is no XID")[0] for r in caplog.records] == [
        "DP_DISABLE_HEALTHCHECKS: 'x'",
        "DP_DISABLE_HEALTHCHECKS: '18446744073709551616'",
    ]


@given(st.text(max_size=40))
def test_any_text_makes_a_policy(text):
    logging.disable()
    try:
        got = XidList.parse("DP_DISABLE_HEALTHCHECKS", text)
    finally:
        logging.disable(logging.NOTSET)

    assert all(0 <= n < 2**64 for n in got.numbers)


@given(st.sets(st.integers(0, 2**64 - 1)))
def test_numbers_come_back(numbers):
    assert XidList.parse("V", ",".join(map(str, numbers))).numbers == numbers


def xid(uuid: str | None = "G0", gi: int | None = None, ci: int | None = None) -> HealthEvent:
    return HealthEvent(HealthKind.XID, uuid, 79, gi, ci, "XID 79")


DEVICES = [
    Device(id="G0", index="0", gpu_uuid="G0", replicas=4),
    Device(id="M1", index="0:0", gpu_uuid="G0", mig_instances=(1, 0)),
    Device(id="M2", index="0:1", gpu_uuid="G0", mig_instances=(2, 0)),
    Device(id="G1", index="1", gpu_uuid="G1"),
]


@pytest.mark.parametrize(
    ("event", "hit"),
    [
        (xid(), ["G0", "M1", "M2"]),
        (xid("G1"), ["G1"]),
        (xid("G1", 3, 0), ["G1"]),
        (xid("nobody"), []),
        (xid(None), ["G0", "M1", "M2", "G1"]),
        (xid("G0", 2, 0), ["G0", "M2"]),
        (xid("G0", 2, None), ["G0", "M2"]),
        (xid("G0", None, 0), ["G0", "M1", "M2"]),
        (xid("G0", 2, 1), ["G0"]),
    ],
)
def test_an_event_hits_everything_on_its_gpu_or_the_instance_it_names(event, hit):
    assert [device.id for device in devices_hit(DEVICES, event)] == hit


UNMONITORED = HealthSettings(monitor_failure=MonitorFailure.UNMONITORED)


@pytest.mark.parametrize(
    ("event", "action", "unmonitored"),
    [
        (HealthEvent(HealthKind.XID, "G0", 79), "unhealthy", "unhealthy"),
        (HealthEvent(HealthKind.XID, "G0", 13), "ignore", "ignore"),
        (HealthEvent(HealthKind.XID, None, None), "unhealthy", "unhealthy"),
        (HealthEvent(HealthKind.UNMONITORABLE, "G0"), "unhealthy", "warn"),
        (HealthEvent(HealthKind.MONITORABLE, "G0"), "ignore", "ignore"),
        (HealthEvent(HealthKind.LOST, "G0"), "unhealthy", "unhealthy"),
        (HealthEvent(HealthKind.MONITOR_LOST), "unhealthy", "warn"),
        (HealthEvent(HealthKind.MONITOR_NOT_STARTED), "unhealthy", "warn"),
        (HealthEvent(HealthKind.MONITOR_READY), "ignore", "ignore"),
    ],
)
def test_what_is_done_about_events(event, action, unmonitored):
    assert policy().action_on(event) == action
    assert HealthPolicy.of({}, UNMONITORED).action_on(event) == unmonitored


@pytest.mark.parametrize(
    ("xid", "disable", "enable", "configured", "action"),
    [
        (94, "", "", "warn", "warn"),
        (31, "", "", "unhealthy-until-reset", "unhealthy-until-reset"),
        (79, "", "", "ignore", "ignore"),
        (79, "79", "", "unhealthy-until-reset", "ignore"),
        (79, "all", "", "warn", "ignore"),
        (31, "", "31", "ignore", "unhealthy"),
        (31, "", "31", "warn", "unhealthy"),
        (79, "all", "79", "unhealthy-until-reset", "unhealthy-until-reset"),
        (79, "", "all", "warn", "unhealthy"),
    ],
)
def test_the_variables_win_over_the_configuration(xid, disable, enable, configured, action):
    settings = HealthSettings(xids={xid: XidAction(configured)})
    environ = {"DP_DISABLE_HEALTHCHECKS": disable, "DP_ENABLE_HEALTHCHECKS": enable}

    assert HealthPolicy.of(environ, settings).action(xid) == action


@pytest.mark.parametrize(
    ("xid", "text"), [(79, "XID 79 (GPU has fallen off the bus)"), (12345, "XID 12345")]
)
def test_xids_are_explained(xid, text):
    assert describe_xid(xid) == text
