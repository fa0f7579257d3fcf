"""Renders the chart with the real helm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import build_deployment_tools
import yaml

Object = dict[str, Any]
Values = Mapping[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deployments" / "helm" / "gpu-device-plugin"
RELEASE = "nvdp"
NAMESPACE = "gpu"
PLUGIN, GFD, MPS = "device-plugin", "gpu-feature-discovery", "mps-control-daemon"
AGENT = "agent"
MAIN = {PLUGIN: "nvidia-device-plugin-ctr", GFD: f"{GFD}-ctr", MPS: f"{MPS}-ctr"}
"""What runs by default, or with gfd.enabled; the agent takes the place of the first two."""


class RefusedError(Exception):
    """helm has refused to render, with this message."""


@cache
def find_helm() -> str | None:
    """The helm that tools/build_deployment_tools.py has built, or one in the PATH."""
    built = build_deployment_tools.helm_program()
    return str(built) if built.exists() else shutil.which("helm")


@dataclass(frozen=True)
class Rendered:
    """The objects of a release."""

    objects: tuple[Object, ...]

    def all_of(self, kind: str) -> list[Object]:
        return [item for item in self.objects if item["kind"] == kind]

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        found = [
            item
            for item in self.all_of(kind)
            if item["metadata"]["name"] == name
            and namespace in {None, item["metadata"].get("namespace")}
        ]
        assert len(found) == 1, f"{len(found)} of {kind} {name}: {self.names()}"
        return found[0]

    def has(self, kind: str, name: str) -> bool:
        return (kind, name) in self.names()

    def names(self) -> list[tuple[str, str]]:
        return [(item["kind"], item["metadata"]["name"]) for item in self.objects]

    def daemonset(self, component: str) -> Object:
        """That of a component of ours."""
        (found,) = (
            item
            for item in self.all_of("DaemonSet")
            if item["metadata"]["labels"].get("app.kubernetes.io/component") == component
        )
        return found

    def components(self) -> set[str]:
        return {
            item["metadata"]["labels"]["app.kubernetes.io/component"]
            for item in self.all_of("DaemonSet")
            if "app.kubernetes.io/component" in item["metadata"]["labels"]
        }

    def pod(self, component: str) -> Object:
        spec: Object = self.daemonset(component)["spec"]["template"]["spec"]
        return spec

    def container(self, component: str, name: str = "") -> Object:
        """The main container of a component, or one of that name."""
        pod = self.pod(component)
        (found,) = (
            item
            for item in [*pod.get("initContainers", []), *pod["containers"]]
            if item["name"] == (name or MAIN.get(component, "gpu-node-agent-ctr"))
        )
        assert isinstance(found, dict)
        return found

    def environ(self, component: str, name: str = "") -> dict[str, str]:
        return environ(self.container(component, name))


def environ(container: Object) -> dict[str, str]:
    """The variables of a container; what comes from the pod itself is ``<field>``."""
    return {
        item["name"]: item.get("value")
        if "value" in item
        else f"<{item['valueFrom']['fieldRef']['fieldPath']}>"
        for item in container.get("env") or ()
    }


def render(
    values: Values | None = None,
    *arguments: str,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
    chart: Path = CHART,
) -> Rendered:
    """What ``helm template`` makes of values; raises RefusedError with its message."""
    text = template(values or {}, *arguments, release=release, namespace=namespace, chart=chart)
    return Rendered(tuple(parse_all(text)))


def template(
    values: Values, *arguments: str, release: str, namespace: str, chart: Path = CHART
) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dict(values), file)
        file.flush()
        return run_helm(
            *("template", release, str(chart), "--namespace", namespace),
            *("--values", file.name, *arguments),
        )


def run_helm(*arguments: str) -> str:
    """The standard output of helm."""
    program = find_helm()
    assert program is not None
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [program, *arguments],
            env={"PATH": os.environ["PATH"], "HOME": home},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    if done.returncode:
        raise RefusedError(re.sub(r"\s+", " ", done.stderr).strip())
    return done.stdout


def containers(item: Object) -> Iterator[Object]:
    """All containers of an object that makes pods."""
    spec = pod_spec(item)
    if spec is not None:
        yield from spec.get("initContainers") or ()
        yield from spec["containers"]


def pod_spec(item: Object) -> Object | None:
    if item["kind"] == "Pod":
        return item["spec"]  # type: ignore[no-any-return]  # parsed YAML
    if item["kind"] in {"DaemonSet", "Deployment", "Job"}:
        return item["spec"]["template"]["spec"]  # type: ignore[no-any-return]  # as above
    return None


def read_manifest(path: Path) -> Sequence[Object]:
    return parse_all(path.read_text(encoding="utf-8"))


def parse_all(text: str) -> list[Object]:
    """The documents that are not empty."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [item for item in yaml.load_all(text, loader) if item]
