"""When alerts are pending, when they fire, and when they stay quiet: promtool on made-up series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support.aio import run
from support.prometheus import MONITORING, alert_rules, needs_prometheus, promtool

pytestmark = needs_prometheus

TARGET = 'job="gpu-node", instance="10.0.0.1:9440", node="n"'
GPU = 'resource="nvidia.com/gpu"'


def series(name: str, labels: str = "") -> str:
    """The name of a series of one target."""
    return f"{name}{{{', '.join(filter(None, (labels, TARGET)))}}}"


@dataclass(frozen=True)
class Case:
    """Series, one value a minute, and when the alert on them has come so far."""

    values: Mapping[str, str]
    pending: str = ""
    """When it waits; empty for one that does not wait."""
    firing: str = ""
    quiet: str = "0m"
    """When it is not there yet, or not any more."""


BUCKET = "gpu_node_allocation_duration_seconds_bucket"
CASES = {
    "GpuNodePluginAbsent": Case(
        {series("gpu_node_gpus", 'state="readable"'): "8x10 stale _x40"}, "17m", "27m", "10m"
    ),
    "GpuNodePluginGone": Case(
        {
            series("gpu_node_gpus", 'state="readable"'): "8x10 stale _x40",
            'gpu_node_gpus{state="readable", node="other"}': "8x60",
        },
        "15m",
        "25m",
        "10m",
    ),
    "GpuNodeNotLive": Case({series("gpu_node_live", 'program="p"'): "1 0x20"}, "3m", "8m"),
    "GpuNodeNotReady": Case({series("gpu_node_ready", 'program="p"'): "1 0x20"}, "5m", "15m"),
    "GpuNodeRestarts": Case(
        {
            series("process_start_time_seconds"): "100x9 200+100x4 700x60",
            series("gpu_node_build_info", 'program="p"'): "1x90",
        },
        firing="20m",
        quiet="10m",
    ),
    "GpuNodeResourceNotRegistered": Case(
        {
            series("gpu_node_resource_state", f'{GPU}, state="registered"'): "1 0x20",
            series("gpu_node_resource_state", f'{GPU}, state="unregistered"'): "0x20",
            series("gpu_node_resource_state", f'{GPU}, state="refused"'): "0 1x20",
        },
        "5m",
        "15m",
    ),
    "GpuNodeNoStream": Case(
        {
            series("gpu_node_resource_state", f'{GPU}, state="registered"'): "1x20",
            series("gpu_node_streams_open", GPU): "1 0x20",
        },
        "5m",
        "15m",
    ),
    "GpuNodeRegistersOften": Case(
        {
            series("gpu_node_registrations_total", f'{GPU}, outcome="ok"'): "1x9 2+1x9 11x60",
            series("gpu_node_registrations_total", f'{GPU}, outcome="failed"'): "0x80",
        },
        firing="20m",
        quiet="70m",
    ),
    "GpuNodeProblem": Case({series("gpu_node_problem", 'kind="driver"'): "0 1x20"}, "3m", "8m"),
    "GpuNodeAllocationsFail": Case(
        {series("gpu_node_allocations_total", f'{GPU}, outcome="refused"'): "0x5 1x30"},
        firing="7m",
        quiet="25m",
    ),
    "GpuNodeAllocationsSlow": Case(
        {
            series(BUCKET, f'{GPU}, outcome="ok", le="0.5"'): "0x40",
            series(BUCKET, f'{GPU}, outcome="ok", le="1.0"'): "0 0+10x40",
            series(BUCKET, f'{GPU}, outcome="ok", le="+Inf"'): "0 0+10x40",
        },
        "8m",
        "20m",
    ),
    "GpuNodeGpuLost": Case(
        {series("gpu_node_gpu_unhealthy", 'gpu="3", cause="lost"'): "0 1x20"}, "1m", "5m"
    ),
    "GpuNodeGpuUnhealthyXid": Case(
        {series("gpu_node_gpu_unhealthy_xid", 'gpu="3", xid="79"'): "_ 1x5 stale"}, "1m", "4m", "9m"
    ),
    "GpuNodeGpuUnhealthy": Case(
        {series("gpu_node_gpu_unhealthy", 'gpu="3", cause="unwatchable"'): "0 1x20"}, "3m", "8m"
    ),
    "GpuNodeGpuUnreadable": Case(
        {series("gpu_node_gpus", 'state="unreadable"'): "0 1x20"}, "3m", "8m"
    ),
    "GpuNodeXidsTolerated": Case(
        {
            series("gpu_node_gpu_health_events_total", 'gpu="3", result="ignored"'): "0+1x20",
            series("gpu_node_gpu_health_events_total", 'gpu="3", result="warned"'): "0x20",
        },
        firing="18m",
        quiet="3m",
    ),
    "GpuNodeHealthMonitorBlind": Case(
        {series("gpu_node_health_monitor_state", 'state="held"'): "0 1x20"}, "3m", "8m"
    ),
    "GpuNodeReloadFailed": Case({series("gpu_node_last_reload_successful"): "1 0x20"}, "1m", "5m"),
    "GpuNodeProfileFailed": Case(
        {series("gpu_node_last_profile_change_successful"): "1 0x20"}, "3m", "8m"
    ),
    "GpuNodeLabelsFail": Case(
        {
            series("gpu_node_last_label_success_timestamp_seconds"): "0x40",
            series("gpu_node_label_passes_total", 'outcome="failed"'): "0+1x40",
        },
        "18m",
        "25m",
        "14m",
    ),
    "GpuNodeLabelsStale": Case(
        {series("gpu_node_next_label_pass_timestamp_seconds"): "60x40"}, "13m", "20m", "10m"
    ),
    "GpuNodePodResourcesDown": Case({series("gpu_node_pod_resources_up"): "1 0x30"}, "9m", "20m"),
    "GpuNodeMpsDaemonNotReady": Case(
        {series("gpu_node_mps_daemon_ready", GPU): "1 0x20"}, "3m", "8m"
    ),
    "GpuNodeMpsDaemonDies": Case(
        {series("gpu_node_mps_daemon_starts_total", f'{GPU}, outcome="ok"'): "1x9 2+1x5 7x60"},
        firing="18m",
        quiet="60m",
    ),
}


def expectation(alert: str, at: str, state: str) -> dict[str, object]:
    """What is to be seen of an alert at some time."""
    return {
        "expr": f'count by (alertname, alertstate) (ALERTS{{alertname="{alert}"}})',
        "eval_time": at,
        "exp_samples": [
            {"labels": f'{{alertname="{alert}", alertstate="{state}"}}', "value": 1},
        ]
        if state
        else [],
    }


async def judge(directory: Path, tests: list[Mapping[str, object]]) -> None:
    """Lets promtool run tests of the rules."""
    path = directory / "tests.yaml"
    rules = [str(MONITORING / "prometheus-rules.yaml")]
    path.write_text(yaml.safe_dump({"rule_files": rules, "tests": tests}))
    code, said = await promtool("test", "rules", str(path))
    assert code == 0, said


def test_there_is_a_case_for_each_alert():
    assert set(CASES) == set(alert_rules())
    waiting = {alert for alert, rule in alert_rules().items() if "for" in rule}
    assert {alert for alert, case in CASES.items() if case.pending} == waiting


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_waits_fires_and_ends(alert, tmp_path):
    case = CASES[alert]
    expected = [expectation(alert, case.firing, "firing"), expectation(alert, case.quiet, "")]
    if case.pending:
        expected.append(expectation(alert, case.pending, "pending"))
    inputs = [{"series": name, "values": values} for name, values in case.values.items()]
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": expected}
    run(judge(tmp_path, [test]))


HEALTHY = {
    series("gpu_node_gpus", 'state="readable"'): "8x180",
    series("gpu_node_gpus", 'state="lost"'): "0x180",
    series("gpu_node_gpus", 'state="unreadable"'): "0x180",
    series("gpu_node_build_info", 'program="p"'): "1x180",
    series("gpu_node_live", 'program="p"'): "1x180",
    # A rolling update: not ready for five minutes, started anew once.
    series("gpu_node_ready", 'program="p"'): "1x60 0x4 1x114",
    series("process_start_time_seconds"): "100x60 3700x119",
    series("gpu_node_resource_state", f'{GPU}, state="registered"'): "1x60 0x4 1x114",
    series("gpu_node_resource_state", f'{GPU}, state="waiting"'): "0x60 1x4 0x114",
    series("gpu_node_streams_open", GPU): "1x60 0x4 1x114",
    series("gpu_node_registrations_total", f'{GPU}, outcome="ok"'): "1x180",
    series("gpu_node_problem", 'kind="driver"'): "0x180",
    series("gpu_node_problem", 'kind="configuration"'): "0x180",
    series("gpu_node_allocations_total", f'{GPU}, outcome="ok"'): "0+5x180",
    series("gpu_node_allocations_total", f'{GPU}, outcome="refused"'): "3x180",
    series(BUCKET, f'{GPU}, outcome="ok", le="0.001"'): "0+5x180",
    series(BUCKET, f'{GPU}, outcome="ok", le="+Inf"'): "0+5x180",
    series("gpu_node_gpu_unhealthy", 'gpu="3", cause="xid"'): "0x180",
    series("gpu_node_gpu_unhealthy", 'gpu="3", cause="lost"'): "0x180",
    # A job with a bug, twice an hour.
    series("gpu_node_gpu_health_events_total", 'gpu="3", result="ignored"'): "0x29 1x29 2x29 3x90",
    series("gpu_node_health_monitor_state", 'state="blind"'): "0x20 1x2 0x158",
    series("gpu_node_health_monitor_state", 'state="watching"'): "1x20 0x2 1x158",
    series("gpu_node_last_reload_successful"): "1x180",
    series("gpu_node_last_profile_change_successful"): "1x180",
    # Labelling fails now and then and succeeds at the next pass.
    series("gpu_node_last_label_success_timestamp_seconds"): "0+60x180",
    series("gpu_node_next_label_pass_timestamp_seconds"): "60+60x180",
    series("gpu_node_label_passes_total", 'outcome="failed"'): "0+1x180",
    series("gpu_node_pod_resources_up"): "1x180",
    series("gpu_node_mps_daemon_ready", GPU): "1x180",
    series("gpu_node_mps_daemon_starts_total", f'{GPU}, outcome="ok"'): "1x90 2x89",
}


def test_a_healthy_node_raises_none(tmp_path):
    inputs = [{"series": name, "values": values} for name, values in HEALTHY.items()]
    quiet = [
        {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{at}m", "exp_samples": []}
        for at in range(10, 180, 10)
    ]
    run(judge(tmp_path, [{"interval": "1m", "input_series": inputs, "promql_expr_test": quiet}]))


def test_labels_that_are_made_once_for_all_are_never_stale(tmp_path):
    values = {series("gpu_node_next_label_pass_timestamp_seconds"): " ".join(["Inf"] * 600)}
    inputs = [{"series": name, "values": each} for name, each in values.items()]
    test = {
        "interval": "1m",
        "input_series": inputs,
        "promql_expr_test": [expectation("GpuNodeLabelsStale", "9h", "")],
    }
    run(judge(tmp_path, [test]))
