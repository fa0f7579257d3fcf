"""The real programs with a genuine Kubernetes API server and with no rights but those documented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.aio import run, until
from support.genuine_api import WHY_NOT, GenuineApi, genuine_api
from support.process import node
from support.serving import GPU, allocatable

from gpu_device_plugin.kube.access import load_access
from gpu_device_plugin.kube.client import KubeClient
from gpu_device_plugin.labels.node_feature import NodeFeatureOutput

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROOT = Path(__file__).parents[2]
NFD = ROOT / "deployments/helm/gpu-device-plugin/charts/node-feature-discovery"
FEATURES = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures"
LABELLER = [
    {
        "apiGroups": ["nfd.k8s-sigs.io"],
        "resources": ["nodefeatures"],
        "verbs": ["get", "create", "update"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
]
"""Those of the chart."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GenuineApi]:
    with genuine_api(tmp_path_factory.mktemp("api")) as server:
        server.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
        yield server


def documented_rules() -> list[dict[str, Any]]:
    """The two rules of the page on events: for events, for the condition."""
    page = (ROOT / "docs/events.md").read_text()
    (text,) = re.findall(r"```yaml\n(# events: a Role.*?)```", page, re.DOTALL)
    rules: list[dict[str, Any]] = yaml.safe_load(text)
    return rules


def allow(api: GenuineApi, account: str, *rules: list[dict[str, Any]]) -> None:
    """A service account with the rights of a Role and a ClusterRole, and no others."""
    api.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": account}})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    places = (("Role", f"{RBAC}/namespaces/default"), ("ClusterRole", RBAC))
    for (kind, place), rule in zip(places, rules, strict=False):
        metadata = {"name": account}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account}
        binding = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
        api.ask("POST", f"{place}/{kind.lower()}s", {"metadata": metadata, "rules": rule})
        api.ask("POST", f"{place}/{kind.lower()}bindings", binding)


def condition(api: GenuineApi) -> dict[str, Any]:
    conditions = api.ask("GET", "/api/v1/nodes/n1")["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "GPUHealthy"), {})


def events(api: GenuineApi) -> list[dict[str, Any]]:
    found = api.ask("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=n1")
    items: list[dict[str, Any]] = found["items"]
    return items


def test_health_is_reported_with_the_documented_rights(api: GenuineApi, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    faults.touch()
    for_events, for_condition = documented_rules()
    allow(api, "reporter", [for_events], [for_condition])
    environ = {
        "GPU_NODE_SIMULATE_EVENTS": str(faults),
        "GPU_NODE_REPORT_HEALTH": "events,node-condition",
        "NODE_NAME": "n1",
        "KUBECONFIG": api.kubeconfig(tmp_path, "reporter"),
    }

    async def work() -> None:
        async with node(tmp_path, environ=environ) as (kubelet, running):
            await kubelet.until(lambda view: view.resource(GPU).capacity > 0, "a list")
            await running.logged("GPU health is being watched")
            await until(lambda: condition(api).get("status") == "True")
            faults.write_text("xid 0 48\nxid 0 48\n")
            await kubelet.until(allocatable(3), "three GPUs")
            await until(lambda: condition(api)["status"] == "False")
            await until(lambda: [e["count"] for e in events(api)] == [2])
            assert "not reported" not in running.log

    run(work())
    (event,) = events(api)
    assert (event["reason"], event["type"]) == ("GPUXid", "Warning")
    assert event["involvedObject"]["uid"] == "n1"


def a_pod(api: GenuineApi, name: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d1"}
    metadata = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
    spec = {
        "nodeName": "n1",
        "serviceAccountName": "labeller",
        "containers": [{"name": "c", "image": "i"}],
    }
    api.ask("POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec})


async def published(kubeconfig: str, pod: str, *labels: dict[str, str]) -> list[bool]:
    output = NodeFeatureOutput(
        KubeClient(load_access(kubeconfig)), node="n1", namespace="default", pod=pod
    )
    try:
        return [await output.publish(item) for item in labels]
    finally:
        await output.close()


def test_labels_are_published_with_the_charts_rights(api: GenuineApi, tmp_path: Path) -> None:
    crd = yaml.safe_load((NFD / "crds/nodefeatures.yaml").read_text())
    api.define(crd)
    allow(api, "labeller", LABELLER)
    kubeconfig = api.kubeconfig(tmp_path, "labeller")
    for pod in ("first", "second"):
        a_pod(api, pod)

    async def work() -> None:
        one, other = {"nvidia.com/gpu.count": "8"}, {"nvidia.com/gpu.count": "7"}
        assert await published(kubeconfig, "first", one, one) == [True, False]
        # This server lets only those change owners who may delete the object.
        assert await published(kubeconfig, "second", one, other, other) == [False, True, False]

    run(work())
    (item,) = api.ask("GET", FEATURES)["items"]
    assert item["spec"]["labels"] == {"nvidia.com/gpu.count": "7"}
    assert [owner["name"] for owner in item["metadata"]["ownerReferences"]] == ["d", "first"]
