"""A genuine Kubernetes API server takes every manifest and whatever the chart renders."""

from __future__ import annotations

import io
import json
import urllib.error
from collections.abc import Iterator
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment.charts import (
    CHART,
    NAMESPACE,
    PLUGIN,
    RELEASE,
    Object,
    parse_all,
    read_manifest,
    render,
    run_helm,
)
from deployment.matrix import MATRIX
from deployment.test_chart_upgrade import ORIGINAL
from deployment.test_manifests import EXAMPLES, MANIFESTS
from support.genuine_api import ADMIN, WHY_NOT, GenuineApi, genuine_api

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

CRDS = CHART / "charts" / "node-feature-discovery" / "crds"
MONITORING = {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"}
"""Kinds of the Prometheus operator, whose fields other tests check, by `operator_schemas`."""
NAMESPACES = (
    NAMESPACE,
    "labels",
    "node-feature-discovery",
    "nvidia-device-plugin",
    "monitoring",
    "elsewhere",
)
"""What the sets of values and the manifests presume."""


class Judge:
    """Asks the server what it would say, without leaving anything there."""

    def __init__(self, api: GenuineApi) -> None:
        self._api = api
        self._kinds: dict[str, dict[str, Object]] = {}

    def complaint(self, item: Object) -> str:
        """What the server has against an object; empty if it would take it."""
        kind = self._kind(item)
        if kind is None:
            return f"{item['apiVersion']} {item['kind']}: unknown to the server"
        place = f"/namespaces/{item['metadata'].get('namespace', 'default')}"
        path = f"{_root(item)}{place if kind['namespaced'] else ''}/{kind['name']}"
        try:
            self._api.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", item)
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.CONFLICT:  # it is there already, and this one is valid, too
                return ""
            return f"{item['kind']} {item['metadata']['name']}: {_message(error)}"
        return ""

    def _kind(self, item: Object) -> Object | None:
        version = item["apiVersion"]
        if version not in self._kinds:
            try:
                found = self._api.ask("GET", _root(item))["resources"]
            except urllib.error.HTTPError:
                found = []
            self._kinds[version] = {r["kind"]: r for r in found if "/" not in r["name"]}
        return self._kinds[version].get(item["kind"])


def _root(item: Object) -> str:
    version = item["apiVersion"]
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _message(error: urllib.error.HTTPError) -> str:
    with error:
        return str(json.load(io.TextIOWrapper(error, "utf-8")).get("message", error))


class Cluster:
    """The server as helm knows it."""

    def __init__(self, api: GenuineApi, kubeconfig: Path) -> None:
        self.api = api
        self._kubeconfig = kubeconfig
        cluster = {"server": api.url, "certificate-authority": str(api.certificates.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": ADMIN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        kubeconfig.write_text(json.dumps(content))

    def helm(self, *arguments: str) -> str:
        return run_helm("--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE, *arguments)

    def upgrade(self, values: Path) -> None:
        options = ("--install", "--create-namespace", "--values", str(values))
        self.helm("upgrade", RELEASE, str(CHART), *options)

    def of_the_release(self) -> set[tuple[str, str]]:
        """Kind and name of everything there that is the chart's."""
        selector = "?labelSelector=app.kubernetes.io/managed-by%3DHelm"
        core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
        paths = [
            *(f"{core}/{name}" for name in ("configmaps", "serviceaccounts", "services")),
            *(f"{rbac}/{name}" for name in ("clusterroles", "clusterrolebindings", "roles")),
            *(f"/apis/apps/v1/{name}" for name in ("daemonsets", "deployments")),
        ]
        found = set[tuple[str, str]]()
        for path in paths:
            answer = self.api.ask("GET", path + selector)
            kind = answer["kind"].removesuffix("List")
            found |= {(kind, item["metadata"]["name"]) for item in answer["items"]}
        return found

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.api)


def operator_kind(kind: str, plural: str) -> Object:
    """A definition that takes any fields."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    group = "monitoring.coreos.com"
    spec = {
        "group": group,
        "names": {"kind": kind, "plural": plural},
        "scope": "Namespaced",
        "versions": [version],
    }
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


@pytest.fixture(scope="module")
def cluster(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assert helm
    directory = tmp_path_factory.mktemp("api")
    with genuine_api(directory) as api:
        for path in sorted(CRDS.glob("*.yaml")):
            for crd in read_manifest(path):
                api.define(crd)
        for kind, plural in MONITORING.items():
            api.define(operator_kind(kind, plural))
        for name in NAMESPACES:
            api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        # No controller manager makes those.
        for name in ("default", *NAMESPACES):
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            api.ask("POST", accounts, {"metadata": {"name": "default"}})
        yield Cluster(api, directory / "kubeconfig")


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_whatever_the_chart_renders_is_taken(cluster: Cluster, values: dict[str, Any]) -> None:
    items = render(values).objects

    assert [c for c in map(cluster.judge.complaint, items) if c] == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_each_manifest_is_taken(cluster: Cluster, path: Path) -> None:
    items = parse_all(path.read_text(encoding="utf-8").replace("NODE_NAME", "node-1"))

    assert items
    assert [c for c in map(cluster.judge.complaint, items) if c] == []


def test_a_mistake_is_noticed(cluster: Cluster) -> None:
    item = render().daemonset(PLUGIN)
    item["spec"]["template"]["spec"]["tolerations"][0]["efect"] = "NoSchedule"

    assert "efect" in cluster.judge.complaint(item)


def test_a_release_is_installed_upgraded_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    """From the original's values over all examples, and back to nothing."""
    original = tmp_path / "original.yaml"
    original.write_text(yaml.safe_dump(ORIGINAL))
    for values in (original, *sorted((EXAMPLES / "values").glob("*.yaml")), original):
        cluster.upgrade(values)
        wanted = yaml.safe_load(values.read_text())
        expected = {name for kind, name in render(wanted).names() if kind == "DaemonSet"}
        found = {name for kind, name in cluster.of_the_release() if kind == "DaemonSet"}
        assert found == expected, values.name
    cluster.helm("uninstall", RELEASE)
    assert cluster.of_the_release() == set()
