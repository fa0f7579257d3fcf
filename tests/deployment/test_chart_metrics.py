"""The port for metrics, probes and the status page: what the chart makes of its values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from deployment.charts import AGENT, GFD, MPS, PLUGIN, ROOT, Object, Rendered, render
from deployment.matrix import MATRIX

pytestmark = pytest.mark.usefixtures("helm")

PORTS = {PLUGIN: 9440, GFD: 9441, MPS: 9442}
ALL = {"gfd": {"enabled": True}}
METRICS: dict[str, Any] = {"metrics": {"enabled": True}, **ALL}
NAME = "nvdp-gpu-device-plugin"
LISTENING = ("ports", "livenessProbe")


def listener(rendered: Rendered, component: str) -> dict[str, str]:
    """The variables of the port, without their common beginning."""
    return {
        name.removeprefix("GPU_NODE_METRICS_"): value
        for name, value in rendered.environ(component).items()
        if name.startswith("GPU_NODE_METRICS_")
    }


def policy(rendered: Rendered, component: str) -> Object:
    (found,) = (
        item
        for item in rendered.all_of("NetworkPolicy")
        if item["metadata"]["labels"]["app.kubernetes.io/component"] == component
    )
    spec: Object = found["spec"]
    return spec


@pytest.mark.parametrize("component", PORTS)
def test_nothing_listens_by_default(component: str) -> None:
    rendered = render({**ALL, "networkPolicy": {"enabled": True}})

    assert listener(rendered, component) == {}
    assert not set(LISTENING) & set(rendered.container(component))
    assert policy(rendered, component)["ingress"] == []
    assert not rendered.all_of("Service")
    assert "NODE_NAME" not in rendered.environ(PLUGIN)


@pytest.mark.parametrize(("component", "port"), PORTS.items())
def test_metrics_open_a_port(component: str, port: int) -> None:
    rendered = render(METRICS)

    assert listener(rendered, component) == {
        "ADDRESS": f":{port}",
        "ENDPOINTS": "metrics,status",
    }
    container = rendered.container(component)
    assert container["ports"] == [{"name": "metrics", "containerPort": port, "protocol": "TCP"}]
    assert "livenessProbe" not in container
    assert rendered.environ(component)["NODE_NAME"] == "<spec.nodeName>"


@pytest.mark.parametrize(
    ("values", "endpoints"),
    [
        ({"metrics": {"enabled": True, "statusPage": False}}, "metrics"),
        ({"metrics": {"enabled": True}, "probes": {"enabled": True}}, "metrics,status,probes"),
        ({"probes": {"enabled": True}}, "probes"),
    ],
)
def test_only_what_is_wanted_is_served(values: dict[str, Any], endpoints: str) -> None:
    assert listener(render(values), PLUGIN)["ENDPOINTS"] == endpoints


@pytest.mark.parametrize(("component", "port"), PORTS.items())
def test_each_daemonset_has_a_service_that_selects_its_pods(component: str, port: int) -> None:
    rendered = render(METRICS)
    name = rendered.daemonset(component)["metadata"]["name"]

    service = rendered.get("Service", f"{name}-metrics")["spec"]

    labels = rendered.daemonset(component)["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert service["selector"]["app.kubernetes.io/component"] == component
    assert service["ports"] == [
        {"name": "metrics", "port": port, "targetPort": "metrics", "protocol": "TCP"}
    ]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True


def test_there_are_services_for_what_there_is() -> None:
    assert {
        n
        for k, n in render({"metrics": {"enabled": True}, "mps": {"enabled": False}}).names()
        if k == "Service"
    } == {f"{NAME}-metrics"}
    assert not render({"probes": {"enabled": True}}).all_of("Service")


def test_long_names_stay_names_of_services() -> None:
    rendered = render({**METRICS, "fullnameOverride": "x" * 63})

    names = [item["metadata"]["name"] for item in rendered.all_of("Service")]
    assert len(set(names)) == len(PORTS)
    assert all(len(name) <= 63 for name in names)


def test_the_kubelet_is_asked_who_holds_what_where_pods_are_wanted() -> None:
    rendered = render(METRICS)
    container = rendered.container(PLUGIN)

    socket = rendered.environ(PLUGIN)["GPU_NODE_POD_RESOURCES_SOCKET"]
    assert socket == "/var/lib/kubelet/pod-resources/kubelet.sock"
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "pod-resources")
    assert mount == {
        "name": "pod-resources",
        "mountPath": "/var/lib/kubelet/pod-resources",
        "readOnly": True,
    }
    assert "GPU_NODE_POD_RESOURCES_SOCKET" not in rendered.environ(GFD)


@pytest.mark.parametrize(
    "values",
    [
        {"metrics": {"enabled": True, "podResources": {"enabled": False}}},
        {"probes": {"enabled": True}},
    ],
)
def test_the_kubelet_is_not_asked_where_they_are_not(values: dict[str, Any]) -> None:
    rendered = render(values)

    assert rendered.environ(PLUGIN)["GPU_NODE_POD_RESOURCES_SOCKET"] == ""
    assert "pod-resources" not in {v["name"] for v in rendered.pod(PLUGIN)["volumes"]}


@pytest.mark.parametrize(("component", "port"), {PLUGIN: 9000, GFD: 9001, MPS: 9002}.items())
def test_a_guarded_port(component: str, port: int) -> None:
    rendered = render(MATRIX["metrics, guarded"])

    assert listener(rendered, component) == {
        "ADDRESS": f":{port}",
        "ENDPOINTS": "metrics,status,probes",
        "TLS_CERT_FILE": "/metrics-tls/tls.crt",
        "TLS_KEY_FILE": "/metrics-tls/tls.key",
        "TOKEN_FILE": "/metrics-token/bearer",
    }
    container = rendered.container(component)
    assert container["livenessProbe"]["httpGet"] == {
        "path": "/livez",
        "port": "metrics",
        "scheme": "HTTPS",
    }
    mounts = {m["name"]: m for m in container["volumeMounts"]}
    assert mounts["metrics-tls"]["readOnly"]
    assert mounts["metrics-token"]["readOnly"]
    volumes = {v["name"]: v for v in rendered.pod(component)["volumes"]}
    assert volumes["metrics-tls"]["secret"] == {"secretName": "certificate"}
    assert volumes["metrics-token"]["secret"] == {"secretName": "token"}
    ingress = policy(rendered, component)["ingress"]
    monitoring = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    assert ingress == [
        {
            "ports": [{"protocol": "TCP", "port": port}],
            "from": [{"namespaceSelector": monitoring}],
        }
    ]


def test_a_service_monitor_finds_its_service_and_may_scrape_it() -> None:
    rendered = render(MATRIX["metrics, guarded"])
    monitors = rendered.all_of("ServiceMonitor")

    assert len(monitors) == len(PORTS)
    for monitor in monitors:
        metadata, spec = monitor["metadata"], monitor["spec"]
        service = rendered.get("Service", metadata["name"], metadata["namespace"])
        assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert metadata["labels"]["release"] == "prometheus"
        (endpoint,) = spec["endpoints"]
        assert endpoint["port"] == service["spec"]["ports"][0]["name"]
        assert endpoint["authorization"] == {"credentials": {"name": "token", "key": "bearer"}}
        assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
        assert (endpoint["scheme"], endpoint["interval"], endpoint["scrapeTimeout"]) == (
            "https",
            "1m",
            "10s",
        )
        assert [r["targetLabel"] for r in endpoint["relabelings"]] == ["node", "cluster"]


def test_a_plain_service_monitor_says_no_more_than_needed() -> None:
    values: dict[str, Any] = {"enabled": True, "serviceMonitor": {"enabled": True}}
    monitor = render({"metrics": values}).get("ServiceMonitor", f"{NAME}-metrics")

    assert set(monitor["spec"]["endpoints"][0]) == {"port", "path", "interval", "relabelings"}
    values["serviceMonitor"] = {"enabled": True, "interval": ""}
    monitor = render({"metrics": values}).get("ServiceMonitor", f"{NAME}-metrics")
    assert "interval" not in monitor["spec"]["endpoints"][0]


@pytest.mark.parametrize("component", PORTS)
def test_probes(component: str) -> None:
    rendered = render(MATRIX["probes"])
    container = rendered.container(component)

    assert listener(rendered, component)["ENDPOINTS"] == "probes"
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/livez", "port": "metrics", "scheme": "HTTP"},
        "periodSeconds": 60,
        "timeoutSeconds": 5,
        "failureThreshold": 6,
    }
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert policy(rendered, component)["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": PORTS[component]}]}
    ]


def test_the_probe_that_mps_has_anyway_stays() -> None:
    container = render({"probes": {"enabled": True}}).container(MPS)

    assert container["readinessProbe"]["exec"]["command"] == ["test", "-f", "/mps/.ready"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"


@pytest.mark.parametrize(
    ("left_out", "kept"),
    [("liveness", "readinessProbe"), ("readiness", "livenessProbe")],
)
@pytest.mark.parametrize("component", [PLUGIN, GFD])
def test_either_probe_can_be_left_out(component: str, left_out: str, kept: str) -> None:
    container = render({**ALL, "probes": {"enabled": True, left_out: None}}).container(component)

    assert {name for name in container if name.endswith("Probe")} == {kept}


def test_probes_are_those_of_the_documentation() -> None:
    container = render({"metrics": {"enabled": True}, "probes": {"enabled": True}}).container(
        PLUGIN
    )
    page = (ROOT / "docs" / "probes.md").read_text(encoding="utf-8")
    (example, _) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    documented = yaml.safe_load(example)

    for name in ("livenessProbe", "readinessProbe"):
        probe = documented[name]
        assert container[name] == {**probe, "httpGet": {**probe["httpGet"], "scheme": "HTTP"}}


def test_alerts_are_those_of_the_rule_file() -> None:
    rendered = render(MATRIX["metrics with alerts and dashboard"])

    rule = rendered.get("PrometheusRule", NAME)
    written = ROOT / "deployments" / "monitoring" / "prometheus-rules.yaml"
    assert rule["spec"] == yaml.safe_load(written.read_text(encoding="utf-8"))
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["metadata"]["labels"]["app.kubernetes.io/instance"] == "nvdp"


def test_the_dashboard_is_where_grafana_looks_for_it() -> None:
    written = (ROOT / "deployments" / "monitoring" / "grafana-dashboard.json").read_bytes()
    plain = render({"metrics": {"enabled": True, "dashboard": {"enabled": True}}})
    changed = render(MATRIX["metrics with alerts and dashboard"])

    found = plain.get("ConfigMap", f"{NAME}-dashboard", "gpu")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert "annotations" not in found["metadata"]
    assert json.loads(found["data"]["gpu-nodes.json"]) == json.loads(written)
    moved = changed.get("ConfigMap", f"{NAME}-dashboard", "monitoring")["metadata"]
    assert moved["labels"]["grafana_dashboard"] == "yes"
    assert moved["annotations"] == {"grafana_folder": "GPUs"}


def test_neither_is_there_by_default() -> None:
    rendered = render(METRICS)

    assert not rendered.all_of("PrometheusRule")
    assert not rendered.has("ConfigMap", f"{NAME}-dashboard")


def test_the_agent_has_all_of_it_in_the_network_of_the_host() -> None:
    rendered = render(MATRIX["agent, guarded, in the network of the host"])
    container = rendered.container(AGENT)

    assert rendered.pod(AGENT)["hostNetwork"] is True
    assert listener(rendered, AGENT)["ADDRESS"] == ":9440"
    assert listener(rendered, AGENT)["TOKEN_FILE"] == "/metrics-token/token"
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert container["ports"][0]["containerPort"] == 9440
    assert policy(rendered, AGENT)["egress"]
    health = f"{NAME}-health"
    for kind in ("Role", "ClusterRole"):
        labels = rendered.get(kind, health)["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == AGENT
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        (subject,) = rendered.get(kind, health)["subjects"]
        assert subject["name"] == rendered.pod(AGENT)["serviceAccountName"]
    service = rendered.get("Service", f"{NAME}-agent-metrics")["spec"]
    pod_labels = rendered.daemonset(AGENT)["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= pod_labels.items()
