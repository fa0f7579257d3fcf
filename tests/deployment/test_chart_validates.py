"""What the chart renders is well by the rules of ``gpu-node validate``, and mistakes are found."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from deployment.charts import NAMESPACE, RELEASE, ROOT, containers, render, template
from deployment.matrix import MATRIX

from gpu_device_plugin.diagnosis.files import Text
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.validate import validate

pytestmark = pytest.mark.usefixtures("helm")

VALUES = sorted((ROOT / "deployments" / "examples" / "values").iterdir())
KNOWN = {
    "config: cdi of the documentation": "nothing is mounted at /driver-root: the driver is said",
}
"""Sets of values that do not quite fit together, and what is said about that."""


def findings(values: dict[str, Any]) -> list[Finding]:
    """All but notes."""
    text = template(values, release=RELEASE, namespace=NAMESPACE)
    found = validate([Text("chart", text.encode())]).findings
    return [finding for finding in found if finding.severity is not Severity.NOTE]


@pytest.mark.parametrize("name", MATRIX)
def test_what_the_chart_makes_of_values_is_well(name: str) -> None:
    found = [finding.message for finding in findings(MATRIX[name])]

    assert len(found) == (name in KNOWN)
    assert all(message.startswith(KNOWN[name]) for message in found)


@pytest.mark.parametrize("name", MATRIX)
def test_every_container_of_the_programs_is_recognised(name: str) -> None:
    rendered = render(MATRIX[name])
    text = template(MATRIX[name], release=RELEASE, namespace=NAMESPACE)
    ours = [
        container
        for component in rendered.components()
        for container in containers(rendered.daemonset(component))
    ]

    assert validate([Text("chart", text.encode())]).containers == len(ours)


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_what_the_chart_makes_of_examples_is_well(path: Any) -> None:
    assert not findings(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"config": {"map": {"any": "flags: {renameByDefault: true}"}}},
            "unknown key, ignored",
        ),
        (
            {"config": {"map": {"any": "sharing: {mps: {resources: [{name: gpu, replicas: 1}]}}"}}},
            "1 is too small",
        ),
        ({"devicePlugin": {"extraEnv": [{"name": "MIG_STRATGY", "value": "x"}]}}, "MIG_STRATGY"),
    ],
)
def test_mistakes_in_values_are_found(values: dict[str, Any], message: str) -> None:
    assert any(message in finding.message for finding in findings(values))
