"""The verdict on a node: what is said first when something is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.page_status import NOW, OK, a_status, lost, two_jobs, xid

from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.status.model import Check, Labelling, MpsStatus, NodeStatus, Pods
from gpu_device_plugin.status.page.state import Level, cause_first, view_gpus
from gpu_device_plugin.status.page.verdict import judge

FIRST, LAST = NOW - 742, NOW - 700


def an(severity: Severity, reason: str = "the driver reports nothing") -> Ailment:
    return Ailment(reason, severity, FIRST, LAST)


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        (a_status(), "All 8 GPUs healthy"),
        (a_status("l40s"), "The GPU is healthy"),
        (a_status("dgx-a100-mig"), "All 8 GPUs and 13 MIG devices healthy"),
        (a_status("a30-mig"), "1 GPU and 3 MIG devices healthy"),
        (a_status("no-gpu"), "This node has no GPUs"),
        (a_status(ills={3: xid(79)}), "GPU 3 is unhealthy: GPU has fallen off the bus (XID 79)"),
        (a_status(ills={3: xid(7)}), "GPU 3 is unhealthy: XID 7"),
        (a_status(ills={3: lost()}), "GPU 3 is lost: it has fallen off the bus"),
        (
            a_status(ills={n: xid(48) for n in (1, 2, 3, 6)}),
            "GPUs 1\N{EN DASH}3, 6 are unhealthy: double-bit ECC error (XID 48)",
        ),
        (
            a_status(ills={2: an(Severity.UNTIL_RESET, "XID 95")}),
            "GPU 2 needs a reset: uncontained memory error (XID 95)",
        ),
        (
            a_status(ills={n: an(Severity.UNTIL_RESET, "XID 95") for n in (2, 5)}),
            "GPUs 2, 5 need a reset: uncontained memory error (XID 95)",
        ),
        (
            a_status(ills={n: an(Severity.PROVISIONAL) for n in range(8)}),
            "GPUs 0\N{EN DASH}7 are not watched: the driver reports nothing",
        ),
        (
            a_status(ills={1: an(Severity.UNWATCHABLE, "NVML: unknown error")}),
            "GPU 1 cannot be watched: NVML: unknown error",
        ),
        (a_status(ills={3: lost(), 5: xid(48)}), "2 of 8 GPUs are not healthy"),
        (a_status(watch="off"), "8 GPUs, health not watched"),
        (a_status("l40s", watch="starting"), "1 GPU, health not watched"),
    ],
)
def test_the_headline_says_what_is_wrong(status, headline):
    assert judge(status).headline == headline


def test_a_single_fault_is_told_with_its_times():
    verdict = judge(a_status(ills={3: xid(79, count=4)}))
    assert verdict.level is Level.BAD
    assert verdict.times is not None
    assert (verdict.times.first, verdict.times.last, verdict.times.count) == (FIRST, LAST, 4)
    assert verdict.points == ()


def test_several_faults_are_points_below_the_headline():
    verdict = judge(a_status(ills={3: lost(), 5: xid(48), 6: xid(48)}))
    assert verdict.times is None
    assert [point.text for point in verdict.points] == [
        "GPU 3 is lost: it has fallen off the bus",
        "GPUs 5, 6 are unhealthy: double-bit ECC error (XID 48)",
    ]


def test_some_mig_devices_of_a_gpu_are_named_by_their_index():
    status = a_status("dgx-a100-mig", ills={4: xid(94)})
    devices = [
        replace(each, healthy=True, illness=None) if each.index == "4:1" else each
        for resource in status.resources
        for each in resource.devices
    ]
    by_id = {each.id: each for each in devices}
    resources = tuple(
        replace(r, devices=tuple(by_id[d.id] for d in r.devices)) for r in status.resources
    )
    status = replace(status, resources=resources)
    assert judge(status).headline == (
        "MIG devices 4:0, 4:2 are unhealthy: contained memory error (XID 94)"
    )
    view = view_gpus(status)[4]
    assert view.condition == "2 of 3 unhealthy"
    assert not view.is_hit_as_a_whole


def with_illness(status: NodeStatus, **changes: object) -> NodeStatus:
    """Changes the illness of all devices that have one."""
    return replace(
        status,
        resources=tuple(
            replace(
                r,
                devices=tuple(
                    d if d.illness is None else replace(d, illness=replace(d.illness, **changes))  # type: ignore[arg-type]  # by name
                    for d in r.devices
                ),
            )
            for r in status.resources
        ),
    )


def test_a_severity_of_a_later_version_counts_as_the_firmest_one():
    status = with_illness(a_status(ills={3: xid(79)}), severity="haunted")
    assert judge(status).headline.startswith("GPU 3 is unhealthy: GPU has fallen")
    view = view_gpus(status)[3]
    assert view.illness is not None
    assert view.illness.severity == "haunted"


def test_a_device_may_be_unhealthy_without_a_reason():
    status = a_status(ills={3: xid(79)})
    (resource,) = status.resources
    devices = tuple(replace(d, illness=None) for d in resource.devices)
    status = replace(status, resources=(replace(resource, devices=devices),))
    verdict = judge(status)
    assert verdict.headline == "GPU 3 is unhealthy"
    assert verdict.times is None


def test_what_nvml_says_of_a_lost_gpu_is_not_said_twice():
    status = with_illness(a_status(ills={3: lost()}), reason="GPU is lost")
    assert judge(status).headline == "GPU 3 is lost"


def test_a_lost_gpu_that_is_not_offered_is_told_without_times():
    status = a_status(ills={3: lost()})
    (resource,) = status.resources
    rest = tuple(d for d in resource.devices if d.gpu_index != 3)
    verdict = judge(replace(status, resources=(replace(resource, devices=rest),)))
    assert verdict.headline == "GPU 3 is lost: it has fallen off the bus"
    assert verdict.times is None


def test_gpus_that_cannot_be_read_count_unless_they_are_known_as_lost():
    status = a_status(ills={3: lost()})
    assert status.hardware is not None
    hardware = replace(
        status.hardware,
        unreadable=("GPU 3 cannot be read: GPU is lost", "GPU 9 cannot be read: no permission"),
    )
    verdict = judge(replace(status, hardware=hardware))
    assert verdict.headline == "2 of 9 GPUs are not healthy"
    assert [point.text for point in verdict.points] == [
        "GPU 3 is lost: it has fallen off the bus",
        "GPU 9 cannot be read: no permission",
    ]


def test_a_plugin_that_is_not_ready_says_why_besides_the_gpus():
    reasons = ("nvidia.com/gpu: waiting for the kubelet", "the new configuration cannot be used: x")
    status = replace(a_status(), ready=Check(ok=False, reasons=reasons))
    assert status.configuration is not None
    status = replace(status, configuration=replace(status.configuration, problem="x"))
    verdict = judge(status)
    assert verdict.level is Level.WARN
    assert verdict.headline == "All 8 GPUs healthy, but nvidia-device-plugin is not ready"
    assert [point.text for point in verdict.points] == [f"Not ready: {each}" for each in reasons]


def test_a_problem_of_the_driver_is_said_once():
    status = a_status("no-gpu")
    assert status.hardware is not None
    status = replace(
        status,
        hardware=replace(status.hardware, problem="the driver is not loaded"),
        ready=Check(ok=False, reasons=("no devices: the driver is not loaded",)),
    )
    verdict = judge(status)
    assert verdict.headline == "No GPUs: the driver is not loaded"
    assert verdict.level is Level.BAD
    assert verdict.points == ()


def test_everything_else_that_is_wrong_is_a_point_the_worst_first():
    status = a_status(watch="the driver does not answer", holders=two_jobs)
    assert status.configuration is not None
    status = replace(
        status,
        live=Check(ok=False, reasons=("the monitor has ended",)),
        configuration=replace(status.configuration, problem="profile b is missing"),
        labelling=Labelling(NOW, "/features.d/gfd", (), "no space left"),
        mps=(MpsStatus("nvidia.com/gpu", ready=False, detail="starting"), MpsStatus("b", True, "")),
        pods=Pods(asked=True, problem="permission denied"),
    )
    verdict = judge(status)
    assert verdict.level is Level.BAD
    assert [(point.level.name, point.text) for point in verdict.points] == [
        ("BAD", "Not alive: the monitor has ended"),
        ("WARN", "Configuration: profile b is missing"),
        ("WARN", "Labels: no space left"),
        ("WARN", "MPS daemon of nvidia.com/gpu: starting"),
        ("NOTE", "Who holds what is not told: permission denied"),
        ("NOTE", "Health of the GPUs is not watched: the driver does not answer"),
    ]


@pytest.mark.parametrize(
    ("ready", "level", "headline"),
    [
        (OK, Level.GOOD, "gpu-feature-discovery works"),
        (
            Check(ok=False, reasons=("no pass yet",)),
            Level.WARN,
            "gpu-feature-discovery is not ready",
        ),
    ],
)
def test_a_program_without_devices_is_judged_by_its_probes(ready, level, headline):
    status = NodeStatus("s", "gpu-feature-discovery", "1", "n", NOW, NOW, OK, ready)
    verdict = judge(status)
    assert (verdict.level, verdict.headline) == (level, headline)


def test_a_cause_begins_like_a_sentence():
    (device,) = (d for d in a_status(ills={0: lost()}).resources[0].devices if d.illness)
    assert device.illness is not None
    assert cause_first(device.illness) == "It has fallen off the bus"


@pytest.mark.parametrize("level", list(Level))
def test_each_level_has_a_sign_and_a_class_of_its_own(level):
    assert len(level.symbol) == 1
    assert level.style == level.name.lower()
