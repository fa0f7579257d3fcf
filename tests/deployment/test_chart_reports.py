"""Events and a condition of the node: what the chart gives the plugin for them."""

from __future__ import annotations

from typing import Any

import pytest
from deployment.charts import GFD, MPS, PLUGIN, RefusedError, Rendered, render

pytestmark = pytest.mark.usefixtures("helm")

NAME = "nvdp-gpu-device-plugin-health"
BOTH: dict[str, Any] = {"reportHealth": ["events", "node-condition"]}


def rules(rendered: Rendered, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rendered.get(kind, NAME)["rules"]
    return found


def names_of_node(rendered: Rendered) -> int:
    return sum(v["name"] == "NODE_NAME" for v in rendered.container(PLUGIN)["env"])


def test_there_is_nothing_by_default() -> None:
    rendered = render({})

    assert NAME not in {name for _, name in rendered.names()}
    assert "GPU_NODE_REPORT_HEALTH" not in rendered.environ(PLUGIN)
    assert rendered.pod(PLUGIN)["automountServiceAccountToken"] is False


def test_the_plugin_is_told_and_has_a_token_and_the_others_have_none() -> None:
    rendered = render({**BOTH, "gfd": {"enabled": True, "useNodeFeatureAPI": False}})

    environ = rendered.environ(PLUGIN)
    assert environ["GPU_NODE_REPORT_HEALTH"] == "events,node-condition"
    assert environ["NODE_NAME"] == "<spec.nodeName>"
    tokens = {c: rendered.pod(c)["automountServiceAccountToken"] for c in (PLUGIN, MPS, GFD)}
    assert tokens == {PLUGIN: True, MPS: False, GFD: False}
    assert "GPU_NODE_REPORT_HEALTH" not in rendered.environ(MPS)


@pytest.mark.parametrize(
    "more", [{}, {"metrics": {"enabled": True}}, {"probes": {"enabled": True}}]
)
def test_the_node_is_named_once(more: dict[str, Any]) -> None:
    assert names_of_node(render({**BOTH, **more})) == 1


def test_rights_are_those_that_the_program_names() -> None:
    rendered = render(BOTH)

    assert rules(rendered, "Role") == [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}
    ]
    assert rules(rendered, "ClusterRole") == [
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "patch"]}
    ]
    role, binding = rendered.get("Role", NAME), rendered.get("RoleBinding", NAME)
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "default"
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        (subject,) = rendered.get(kind, NAME)["subjects"]
        assert subject["name"] == rendered.pod(PLUGIN)["serviceAccountName"]
        assert subject["namespace"] == rendered.daemonset(PLUGIN)["metadata"]["namespace"]


@pytest.mark.parametrize(
    ("report", "kinds"),
    [
        ("events", {"Role", "RoleBinding"}),
        ("node-condition", {"ClusterRole", "ClusterRoleBinding"}),
    ],
)
def test_each_report_has_its_own_rights(report: str, kinds: set[str]) -> None:
    rendered = render({"reportHealth": [report]})

    assert {kind for kind, name in rendered.names() if name == NAME} == kinds


def test_there_are_no_rights_without_a_plugin() -> None:
    rendered = render({**BOTH, "devicePlugin": {"enabled": False}, "gfd": {"enabled": True}})

    assert NAME not in {name for _, name in rendered.names()}


def test_a_network_policy_lets_the_plugin_reach_the_api() -> None:
    rendered = render({**BOTH, "networkPolicy": {"enabled": True}})
    egress = {
        item["metadata"]["labels"]["app.kubernetes.io/component"]: item["spec"]["egress"]
        for item in rendered.all_of("NetworkPolicy")
    }

    assert [port["port"] for port in egress[PLUGIN][0]["ports"]] == [443, 6443]
    assert egress[MPS] == []


def test_a_report_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RefusedError, match="reportHealth"):
        render({"reportHealth": ["mail"]})
