"""What is counted as it happens."""

from __future__ import annotations

import pytest
from support.inventories import a_node
from support.metrics import GPU, NOW, Stage, gpus

from gpu_device_plugin.status.metrics.metrics import MOST_RESOURCES, Part
from gpu_device_plugin.status.model import MpsStatus
from gpu_device_plugin.telemetry import (
    Answered,
    Call,
    ChosenWithoutLinks,
    DaemonStarted,
    HealthChanged,
    Labelled,
    ListSent,
    Outcome,
    ProfileApplied,
    Registered,
    Reloaded,
    StreamOpened,
    Turn,
)

ANSWERS = [(Call.ALLOCATE, "allocation"), (Call.PREFER, "preferred_allocation")]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.serve(gpus(2))
    return stage


@pytest.mark.parametrize(("call", "name"), ANSWERS)
@pytest.mark.parametrize("outcome", list(Outcome))
def test_answers_are_counted_by_resource_and_outcome(stage, call, name, outcome):
    before = stage.scrape()
    assert before.value(f"gpu_node_{name}s_total", resource=GPU, outcome=outcome) == 0
    stage.tell(Answered(call, GPU, 0.003, outcome))
    stage.tell(Answered(call, GPU, 0.02, outcome))
    after = stage.scrape()
    assert after.series(f"gpu_node_{name}s_total") == {
        (str(o), GPU): 2 if o is outcome else 0 for o in Outcome
    }


@pytest.mark.parametrize(("call", "name"), ANSWERS)
def test_answers_are_timed(stage, call, name):
    labels = {"resource": GPU, "outcome": "ok"}
    metric = f"gpu_node_{name}_duration_seconds"
    assert stage.scrape().value(f"{metric}_count", **labels) == 0
    stage.tell(Answered(call, GPU, 0.003, Outcome.OK))
    stage.tell(Answered(call, GPU, 7.0, Outcome.OK))
    after = stage.scrape()
    assert after.value(f"{metric}_bucket", le="0.0025", **labels) == 0
    assert after.value(f"{metric}_bucket", le="0.005", **labels) == 1
    assert after.value(f"{metric}_bucket", le="5.0", **labels) == 1
    assert after.value(f"{metric}_bucket", le="+Inf", **labels) == 2
    assert after.value(f"{metric}_sum", **labels) == 7.003


@pytest.mark.parametrize(
    ("happening", "name"),
    [
        (ChosenWithoutLinks(GPU), "gpu_node_preferred_allocations_without_links_total"),
        (StreamOpened(GPU), "gpu_node_streams_opened_total"),
        (ListSent(GPU), "gpu_node_device_lists_sent_total"),
    ],
)
def test_what_happens_to_a_resource_is_counted(stage, happening, name):
    assert stage.scrape().value(name, resource=GPU) == 0
    stage.tell(happening)
    assert stage.scrape().series(name) == {(GPU,): 1}


@pytest.mark.parametrize("outcome", list(Outcome))
def test_registrations_are_counted_by_outcome(stage, outcome):
    assert set(stage.scrape().series("gpu_node_registrations_total").values()) == {0}
    stage.tell(Registered(GPU, outcome))
    assert stage.scrape().series("gpu_node_registrations_total") == {
        (str(o), GPU): o is outcome for o in Outcome
    }


@pytest.mark.parametrize("turn", list(Turn))
def test_xids_are_counted_by_gpu_and_what_came_of_them(stage, turn):
    assert stage.scrape().value("gpu_node_gpu_health_events_total", gpu="1", result=turn) == 0
    stage.tell(HealthChanged(turn, "GPU-1", "XID 79", xid=79))
    after = stage.scrape()
    assert after.value("gpu_node_gpu_health_events_total", gpu="1", result=turn) == 1
    assert after.value("gpu_node_gpu_health_events_total", gpu="0", result=turn) == 0
    assert after.series("gpu_node_gpu_xids_total") == {("1", str(turn), "79"): 1}


def test_what_is_no_xid_is_a_health_event_only(stage):
    stage.tell(HealthChanged(Turn.UNHEALTHY, "", "not watched: no driver"))
    after = stage.scrape()
    assert after.value("gpu_node_gpu_health_events_total", gpu="all", result="unhealthy") == 1
    assert after.series("gpu_node_gpu_xids_total") == {}


def test_gpus_and_xids_that_nobody_knows_share_a_series(stage):
    for xid in range(100_000, 100_050):
        stage.tell(HealthChanged(Turn.UNHEALTHY, f"GPU-{xid}", f"XID {xid}", xid=xid))
    after = stage.scrape()
    assert after.series("gpu_node_gpu_xids_total") == {("other", "unhealthy", "other"): 50}


def test_before_the_node_was_read_no_gpu_is_known():
    stage = Stage(is_read=False)
    stage.tell(HealthChanged(Turn.UNHEALTHY, "GPU-1", "XID 79", xid=79))
    after = stage.scrape()
    assert after.series("gpu_node_gpu_health_events_total") == {("other", "unhealthy"): 1}


def test_a_program_without_a_plugin_knows_no_gpu():
    stage = Stage(has_plugin=False)
    stage.tell(HealthChanged(Turn.UNHEALTHY, "GPU-1", "XID 79", xid=79))
    assert stage.scrape().series("gpu_node_gpu_xids_total") == {("other", "unhealthy", "79"): 1}


def test_resources_beyond_the_limit_share_a_series():
    stage = Stage(inventory=a_node(0))
    for n in range(MOST_RESOURCES + 10):
        stage.tell(ListSent(f"nvidia.com/gpu-{n}"))
    series = stage.scrape().series("gpu_node_device_lists_sent_total")
    assert len(series) == MOST_RESOURCES + 1
    assert series["other",] == 10


def test_counts_of_a_resource_outlast_it(stage):
    stage.tell(ListSent(GPU))
    stage.resources.clear()
    assert stage.scrape().value("gpu_node_device_lists_sent_total", resource=GPU) == 1


def test_reloads_are_counted_and_dated(stage):
    stage.now += 5
    before = stage.scrape()
    assert before.series("gpu_node_reloads_total") == {("ok",): 0, ("failed",): 0}
    assert before.value("gpu_node_last_reload_successful") == 1
    assert before.value("gpu_node_last_reload_success_timestamp_seconds") == NOW
    assert before.value("gpu_node_last_reload_failure_timestamp_seconds") == 0
    stage.tell(Reloaded(Outcome.FAILED, "line 3: it is wrong"))
    failed = stage.scrape()
    assert failed.series("gpu_node_reloads_total") == {("ok",): 0, ("failed",): 1}
    assert failed.value("gpu_node_last_reload_successful") == 0
    assert failed.value("gpu_node_last_reload_success_timestamp_seconds") == NOW
    assert failed.value("gpu_node_last_reload_failure_timestamp_seconds") == NOW + 5
    stage.now += 5
    stage.tell(Reloaded(Outcome.OK))
    mended = stage.scrape()
    assert mended.series("gpu_node_reloads_total") == {("ok",): 1, ("failed",): 1}
    assert mended.value("gpu_node_last_reload_successful") == 1
    assert mended.value("gpu_node_last_reload_success_timestamp_seconds") == NOW + 10
    assert mended.value("gpu_node_last_reload_failure_timestamp_seconds") == NOW + 5


def test_passes_of_labelling_are_counted_timed_and_dated(stage):
    before = stage.scrape()
    assert set(before.series("gpu_node_label_passes_total").values()) == {0}
    assert before.value("gpu_node_labels") == 0
    assert before.value("gpu_node_last_label_success_timestamp_seconds") == 0
    assert before.value("gpu_node_next_label_pass_timestamp_seconds") == float("inf")
    stage.tell(Labelled(Outcome.OK, 0.2, 17, 60.0))
    after = stage.scrape()
    assert after.value("gpu_node_label_passes_total", outcome="ok") == 1
    assert after.value("gpu_node_labels") == 17
    assert after.value("gpu_node_label_pass_duration_seconds_bucket", le="0.1") == 0
    assert after.value("gpu_node_label_pass_duration_seconds_bucket", le="0.25") == 1
    assert after.value("gpu_node_last_label_success_timestamp_seconds") == NOW
    assert after.value("gpu_node_next_label_pass_timestamp_seconds") == NOW + 60


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.FAILED])
def test_labels_stay_out_after_a_pass_that_failed(stage, outcome):
    stage.tell(Labelled(Outcome.OK, 0.2, 17, 60.0))
    stage.now += 60
    stage.tell(Labelled(outcome, 0.2, 0, 1.0))
    after = stage.scrape()
    assert after.value("gpu_node_label_passes_total", outcome=outcome) == 1
    assert after.value("gpu_node_labels") == 17
    assert after.value("gpu_node_last_label_success_timestamp_seconds") == NOW
    assert after.value("gpu_node_next_label_pass_timestamp_seconds") == NOW + 61


def test_without_another_pass_none_is_ever_due(stage):
    stage.tell(Labelled(Outcome.OK, 0.2, 17, None))
    assert stage.scrape().value("gpu_node_next_label_pass_timestamp_seconds") == float("inf")


def test_profiles_are_counted_and_dated(stage):
    before = stage.scrape()
    assert before.series("gpu_node_profile_changes_total") == {("ok",): 0, ("failed",): 0}
    assert before.value("gpu_node_last_profile_change_successful") == 1
    assert before.value("gpu_node_last_profile_change_success_timestamp_seconds") == 0
    stage.tell(ProfileApplied("a", Outcome.OK))
    stage.now += 5
    stage.tell(ProfileApplied("b", Outcome.FAILED, "there is none"))
    after = stage.scrape()
    assert after.series("gpu_node_profile_changes_total") == {("ok",): 1, ("failed",): 1}
    assert after.value("gpu_node_last_profile_change_successful") == 0
    assert after.value("gpu_node_last_profile_change_success_timestamp_seconds") == NOW


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.FAILED])
def test_starts_of_mps_daemons_are_counted(stage, outcome):
    stage.mps = (MpsStatus(GPU, ready=False, detail=""),)
    before = stage.scrape()
    assert before.value("gpu_node_mps_daemon_starts_total", resource=GPU, outcome=outcome) == 0
    stage.tell(DaemonStarted(GPU, outcome))
    after = stage.scrape()
    assert after.value("gpu_node_mps_daemon_starts_total", resource=GPU, outcome=outcome) == 1


@pytest.mark.parametrize("part", list(Part))
def test_a_program_has_the_metrics_of_its_parts_only(part):
    stage = Stage(parts=[part])
    families = stage.scrape().families
    owners = {
        "gpu_node_allocations_total": {Part.PLUGIN},
        "gpu_node_devices": {Part.PLUGIN},
        "gpu_node_reloads_total": {Part.PLUGIN, Part.LABELS, Part.MPS},
        "gpu_node_labels": {Part.LABELS},
        "gpu_node_profile_changes_total": {Part.PROFILES},
        "gpu_node_mps_daemon_starts_total": {Part.MPS},
        "gpu_node_mps_daemon_ready": {Part.MPS, Part.PLUGIN},
        "gpu_node_build_info": set(Part),
        "process_cpu_seconds_total": set(Part),
    }
    assert {name: name in families for name in owners} == {
        name: part in having for name, having in owners.items()
    }


@pytest.mark.parametrize("part", list(Part))
def test_what_happens_in_other_parts_is_no_matter(part):
    stage = Stage(parts=[part])
    for happening in (
        Answered(Call.ALLOCATE, GPU, 0.1, Outcome.OK),
        ChosenWithoutLinks(GPU),
        StreamOpened(GPU),
        ListSent(GPU),
        Registered(GPU, Outcome.OK),
        HealthChanged(Turn.UNHEALTHY, "GPU-0", "XID 79", xid=79),
        Reloaded(Outcome.OK),
        Labelled(Outcome.OK, 0.1),
        ProfileApplied("a", Outcome.OK),
        DaemonStarted(GPU, Outcome.OK),
    ):
        stage.tell(happening)
    assert stage.scrape().size > 10
