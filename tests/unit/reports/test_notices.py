"""From happenings to sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reports import GPU, a_gpu, healthy, xid

from gpu_device_plugin.reports.advice import LOOK_UP, advice_on
from gpu_device_plugin.reports.model import GpuHealth, NodeHealth, Share
from gpu_device_plugin.reports.notices import LONGEST, Notice, Notices
from gpu_device_plugin.telemetry import (
    Answered,
    Call,
    Happening,
    HealthChanged,
    Outcome,
    ProfileApplied,
    Reloaded,
    Turn,
)


def notice(happening: Happening) -> Notice:
    made = Notices().of(happening)
    assert made is not None
    return made


def test_an_xid_names_gpu_address_meaning_devices_and_what_to_do():
    node = NodeHealth(is_read=True, gpus=(a_gpu(0), a_gpu(1, "XID 79", replicas=4)))

    assert notice(xid(1)).text(node) == (
        "GPU 1 (GPU-1, PCI 00000000:01:00.0): XID 79 (GPU has fallen off the bus); "
        "unhealthy: 4 of 4 nvidia.com/gpu; drain the node and reboot it; a GPU that stays away or "
        "falls off the bus again needs service."
    )


def test_only_the_mig_devices_that_are_hit_count():
    shares = (
        Share("nvidia.com/mig-1g.5gb", {"MIG-1": 1, "MIG-2": 1}, frozenset({"MIG-2"})),
        Share("nvidia.com/mig-2g.10gb", {"MIG-3": 1}),
    )
    gpu = GpuHealth(0, "GPU-0", problem="XID 94", shares=shares)

    text = notice(xid(0, 94)).text(NodeHealth(is_read=True, gpus=(gpu,)))

    assert "GPU 0 (GPU-0): XID 94; unhealthy: 1 of 2 nvidia.com/mig-1g.5gb; restart" in text


def test_what_is_well_again_by_now_is_not_called_unhealthy():
    assert "unhealthy" not in notice(xid()).text(healthy(0))


def test_a_warning_says_that_nothing_is_done():
    made = notice(xid(0, 48, Turn.WARNED))

    assert made.reason == "GPUXid"
    assert "nothing is done about it, as the configuration says; drain its pods" in made.text(
        healthy(0)
    )


def test_a_lost_gpu_is_told_with_the_driver_s_words():
    lost = HealthChanged(Turn.UNHEALTHY, "GPU-0", "GPU is lost", is_lost=True)
    made = notice(lost)

    assert (made.reason, made.reason.is_warning) == ("GPULost", True)
    assert "cannot be read any more: GPU is lost; unhealthy: 2 of 2 nvidia.com/gpu;" in made.text(
        NodeHealth(is_read=True, gpus=(a_gpu(0, "GPU is lost", 2),))
    )


def test_recovery_counts_replicas_that_are_back():
    back = HealthChanged(
        Turn.HEALTHY, "GPU-0", "found again", is_lost=True, devices=((GPU, "GPU-0"),)
    )
    made = notice(back)

    assert (made.reason, made.reason.is_warning) == ("GPURecovered", False)
    assert made.text(healthy(0, 1, replicas=3)) == (
        "GPU 0 (GPU-0, PCI 00000000:00:00.0): found again; healthy again: 3 of 3 nvidia.com/gpu."
    )


def test_what_is_about_all_gpus_says_so():
    blind = HealthChanged(Turn.UNHEALTHY, "", "not watched: no driver")
    made = notice(blind)

    assert made.reason == "GPUNotWatched"
    assert made.text(NodeHealth(is_read=True, gpus=(a_gpu(0, "x"), a_gpu(1, "x", 2)))).startswith(
        "all GPUs: not watched: no driver; unhealthy: 3 of 3 nvidia.com/gpu; look at"
    )


def test_a_gpu_that_is_not_known_any_more_is_told_by_its_uuid():
    assert notice(xid(7)).text(healthy(0)).startswith("GPU GPU-7: XID 79")


def test_recovery_of_a_gpu_that_has_gone_tells_no_devices():
    assert notice(HealthChanged(Turn.HEALTHY, "GPU-7", "recovered")).text(healthy(0)) == (
        "GPU GPU-7: recovered."
    )


@pytest.mark.parametrize(
    "happening",
    [xid(turn=Turn.IGNORED), Answered(Call.ALLOCATE, GPU, 0.1, Outcome.OK), Reloaded(Outcome.OK)],
)
def test_what_nobody_has_to_know_is_not_told(happening):
    assert Notices().of(happening) is None


def test_a_rejected_configuration_is_told_and_that_it_is_over():
    notices = Notices()
    rejected = notices.of(Reloaded(Outcome.FAILED, "f.yaml:3: version: v9\nis not known"))
    accepted = notices.of(Reloaded(Outcome.OK))

    assert rejected is not None
    assert accepted is not None
    assert rejected.reason == "GPUConfigRejected"
    assert rejected.text(healthy()) == (
        "the configuration cannot be used: f.yaml:3: version: v9 is not known; the last good one "
        "stays in force; mend it, it is read again at the next reload."
    )
    assert accepted.reason == "GPUConfigAccepted"
    assert accepted.text(healthy()).startswith("the configuration is in force;")
    assert notices.of(Reloaded(Outcome.OK)) is None


def test_what_passes_by_itself_is_nothing_to_be_mended():
    made = notice(Reloaded(Outcome.FAILED, "the disk is full", is_passing=True))

    assert made.text(healthy()) == (
        "the configuration cannot be applied for now: the disk is full; the former one stays in "
        "force; it is tried again by itself."
    )


def test_a_profile_is_named():
    made = notice(ProfileApplied("ts4", Outcome.REFUSED, "there is no file ts4"))

    assert made.text(healthy()).startswith("the configuration ts4 cannot be used: there is no file")


def test_a_reload_that_succeeds_does_not_end_the_trouble_with_a_profile():
    notices = Notices()
    for happening in (ProfileApplied("ts4", Outcome.FAILED, "x"), Reloaded(Outcome.FAILED, "x")):
        assert notices.of(happening) is not None

    assert notices.of(Reloaded(Outcome.OK)) is None
    accepted = notices.of(ProfileApplied("ts4", Outcome.OK))
    assert accepted is not None
    assert accepted.text(healthy()).startswith("the configuration ts4 is in force;")


def test_the_same_again_has_the_same_key_and_something_else_another():
    same = {notice(xid(0)).key, notice(xid(0)).key}
    others = {notice(h).key for h in (xid(1), xid(0, 48), xid(0, 79, Turn.WARNED))}

    assert len(same) == 1
    assert len(others | same) == 4


def test_an_xid_of_which_nothing_is_known_is_to_be_looked_up():
    assert advice_on(9999) == LOOK_UP
    assert advice_on(48) != LOOK_UP


@given(st.text(max_size=3000), st.text(max_size=50))
def test_every_message_is_one_line_that_the_api_takes(reason, uuid):
    happenings: list[Happening] = [
        HealthChanged(Turn.UNHEALTHY, uuid, reason, is_lost=True),
        HealthChanged(Turn.WARNED, uuid, reason),
        Reloaded(Outcome.FAILED, reason),
    ]
    for happening in happenings:
        text = notice(happening).text(healthy(0))
        assert text.isprintable()
        assert len(text) <= LONGEST
