"""The port for metrics, probes and the status page: what the chart makes of its values."""

from __future__ import annotations

from typing import Any

import pytest
from deployment.charts import GFD, MPS, PLUGIN, Object, Rendered, render
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
    values = {"enabled": True, "serviceMonitor": {"enabled": True}}
    monitor = render({"metrics": values}).get("ServiceMonitor", f"{NAME}-metrics")

    assert set(monitor["spec"]["endpoints"][0]) == {"port", "path", "interval", "relabelings"}


@pytest.mark.parametrize("component", PORTS)
def test_probes(component: str) -> None:
    rendered = render(MATRIX["probes"])
    container = rendered.container(component)

    assert listener(rendered, component)["ENDPOINTS"] == "probes"
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/livez", "port": "metrics", "scheme": "HTTP"},
        "initialDelaySeconds": 10,
        "periodSeconds": 60,
        "timeoutSeconds": 5,
        "failureThreshold": 3,
    }
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert policy(rendered, component)["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": PORTS[component]}]}
    ]


def test_the_probe_that_mps_has_anyway_stays() -> None:
    container = render({"probes": {"enabled": True}}).container(MPS)

    assert container["readinessProbe"]["exec"]["command"] == ["test", "-f", "/mps/.ready"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
