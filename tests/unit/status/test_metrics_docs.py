"""The page on metrics and the metrics themselves say the same; so do alerts and their page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.metrics import SAMPLES, Metric, everything, exposed

from gpu_device_plugin.config.option import Program
from gpu_device_plugin.status.metrics.metrics import PARTS, Part

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ALERTS_PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
RULES = yaml.safe_load((ROOT / "deployments" / "monitoring" / "prometheus-rules.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}


def documented() -> Iterator[Metric]:
    for line in PAGE.splitlines():
        if re.match(r"\| `(gpu_node|process)_", line):
            name, kind, labels, meaning, _ = (cell.strip() for cell in line.strip("|").split(" |"))
            assert meaning, line
            yield Metric(name.strip("`"), kind, frozenset(re.findall(r"`(\w+)`", labels)))


def test_the_page_has_every_metric_and_no_other():
    page, program = sorted(documented(), key=str), sorted(exposed(), key=str)
    assert page == program


def test_the_page_has_each_metric_once():
    names = [metric.name for metric in documented()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("metric", list(documented()), ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric):
    assert re.fullmatch(r"(gpu_node|process)(_[a-z0-9]+)+", metric.name)
    assert metric.name.endswith("_total") is (metric.type == "counter")
    assert not metric.labels & {"node", "instance", "job", "namespace", "pod", "container"}, (
        "those are labels of the target"
    )
    if "timestamp" in metric.name or "duration" in metric.name:
        assert metric.name.endswith("_seconds")


def test_every_metric_has_a_help_text():
    lines = [line for line in everything().text.splitlines() if line.startswith("# HELP ")]
    texts = [line.split(" ", 3)[3] for line in lines]
    assert all(text.endswith(".") and text[0].isupper() for text in texts)
    assert len(lines) == len(everything().families)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_it_means_and_where_to_read_on(alert):
    rule = ALERTS[alert]
    assert alert.startswith("GpuNode")
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook"}
    assert len(notes["summary"]) < 140
    assert notes["runbook"] == f"docs/alerts.md#{alert.lower()}"
    assert f"### {alert}\n" in ALERTS_PAGE


def test_the_page_on_alerts_has_no_other():
    assert re.findall(r"^### (.+)$", ALERTS_PAGE, re.MULTILINE) == list(ALERTS)


def test_pages_refer_to_alerts_that_there_are():
    for page in (PAGE, ALERTS_PAGE):
        for anchor in re.findall(r"#(gpunode\w+)", page):
            assert anchor in {alert.lower() for alert in ALERTS}


def test_rules_use_metrics_that_there_are():
    names = {metric.name for metric in exposed()}
    names |= {name + part for name in names for part in SAMPLES}
    for alert, rule in ALERTS.items():
        used = set(re.findall(r"\b(?:gpu_node|process)_\w+", rule["expr"]))
        assert used, alert
        assert used <= names, alert


def test_every_program_has_its_parts():
    assert set(PARTS) == set(Program)
    assert {part for parts in PARTS.values() for part in parts} == set(Part)
