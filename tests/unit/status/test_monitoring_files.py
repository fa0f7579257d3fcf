"""The Grafana dashboard and the manifest of the rules: current, complete, and well-formed."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import generate_monitoring
import pytest
import yaml
from support.metrics import exposed

MONITORING = Path(__file__).resolve().parents[3] / "deployments" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [p for p in DASHBOARD["panels"] if p["type"] != "row"]


def test_the_files_are_current():
    assert generate_monitoring.main(["--check"]) == 0, "run tools/generate_monitoring.py --write"


def test_the_manifest_has_the_groups_of_the_rule_file():
    manifest = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    rules = yaml.safe_load((MONITORING / "prometheus-rules.yaml").read_text())
    assert manifest["kind"] == "PrometheusRule"
    assert manifest["spec"] == rules


def test_panels_have_numbers_of_their_own():
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_no_panel_covers_another_or_leaves_the_page():
    def cells(panel: dict[str, Any]) -> tuple[int, int, int, int]:
        at = panel["gridPos"]
        return at["x"], at["x"] + at["w"], at["y"], at["y"] + at["h"]

    for one, other in combinations(map(cells, DASHBOARD["panels"]), 2):
        apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
        assert apart, (one, other)
    assert max(cells(panel)[1] for panel in DASHBOARD["panels"]) == 24


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_says_what_it_shows_and_asks_the_chosen_prometheus(panel):
    assert panel["description"].endswith(".")
    assert panel["targets"]
    for asked in (panel, *panel["targets"]):
        assert asked["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    letters = [target["refId"] for target in panel["targets"]]
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_query_follows_the_choice_of_nodes(panel):
    for target in panel["targets"]:
        assert '"$node"' in target["expr"] or "ALERTS" in target["expr"]


def test_variables_that_are_used_are_defined():
    defined = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    text = json.dumps(PANELS)
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__data"}
    assert used <= defined
    assert used == {"datasource", "node", "resource"}


def test_the_dashboard_shows_every_metric_that_changes():
    text = json.dumps(PANELS)
    names = {metric.name for metric in exposed() if metric.name.startswith("gpu_node_")}
    hidden = {name for name in names if not re.search(rf"\b{name}(_bucket|_sum)?\b", text)}
    assert hidden == {
        # Alerts are about them.
        "gpu_node_live",
        "gpu_node_problem",
        "gpu_node_pod_resources_up",
        "gpu_node_gpu_unhealthy_xid",
        "gpu_node_last_reload_successful",
        "gpu_node_last_profile_change_successful",
        # Dates of what is counted.
        "gpu_node_last_reload_success_timestamp_seconds",
        "gpu_node_last_reload_failure_timestamp_seconds",
        "gpu_node_last_label_success_timestamp_seconds",
        "gpu_node_last_profile_change_success_timestamp_seconds",
        # To be joined with others.
        "gpu_node_resource_info",
    }


def test_colours_suit_light_and_dark_pages():
    """Names of Grafana's palette are drawn to fit either theme; codes would not be."""
    assert not re.search(r"#[0-9a-fA-F]{6}", json.dumps(DASHBOARD))
    assert "style" not in DASHBOARD
