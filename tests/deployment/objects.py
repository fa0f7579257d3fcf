"""What an API server would say about objects: schemas, and rules that no schema holds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # has no types of its own
from build_deployment_tools import KUBERNETES, schema_directory
from deployment.charts import Object, containers, pod_spec
from deployment.operator_schemas import SCHEMAS
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "Namespace", "CustomResourceDefinition"}


def have_schemas() -> bool:
    return all(schema_directory(version).exists() for version in KUBERNETES)


def problems(objects: Iterable[Object], *, schemas: bool = True) -> list[str]:
    """Everything that is wrong with objects, a line each."""
    items = list(objects)
    found = list[str]()
    for item in items:
        if schemas:
            found += schema_problems(item)
        found += [f"{_name(item)}: {text}" for text in rule_problems(item)]
    keys = Counter(
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in items
    )
    found += [f"twice: {key}" for key, count in keys.items() if count > 1]
    return found + list(_references(items))


def schema_problems(item: Object) -> tuple[str, ...]:
    return _schema_problems(json.dumps(item, sort_keys=True))


@cache
def _schema_problems(text: str) -> tuple[str, ...]:
    """The same object is looked at once only, however many sets of values make it."""
    item = json.loads(text)
    return tuple(
        f"{version}: {_name(item)}: {error.json_path}: {error.message[:200]}"
        for version in KUBERNETES
        for error in _validator(version, item["apiVersion"], item["kind"]).iter_errors(item)
    )


@cache
def _validator(version: str, api: str, kind: str) -> jsonschema.Draft202012Validator:
    if (api, kind) in SCHEMAS:
        return jsonschema.Draft202012Validator(SCHEMAS[api, kind])
    directory = schema_directory(version)
    group, _, number = api.rpartition("/")
    short = group.split(".")[0]
    name = "-".join(part for part in (kind.lower(), short, number) if part)
    return jsonschema.Draft202012Validator(
        json.loads((directory / f"{name}.json").read_text(encoding="utf-8")),
        registry=_registry(directory),
    )


@cache
def _registry(directory: Path) -> Registry[object]:
    text = (directory / "_definitions.json").read_text(encoding="utf-8")
    resource = Resource.from_contents(json.loads(text), default_specification=DRAFT202012)
    empty: Registry[object] = Registry()
    registry: Registry[object] = empty.with_resource("/api/_definitions.json", resource)
    return registry


def rule_problems(item: Object) -> Iterator[str]:
    """Rules of Kubernetes' own validation that the schemas leave out."""
    metadata = item["metadata"]
    if not NAME.fullmatch(metadata["name"]):
        yield f"bad name {metadata['name']}"
    if item["kind"] in CLUSTER_WIDE and "namespace" in metadata:
        yield "has a namespace"
    yield from _labels(metadata.get("labels") or {})
    spec = pod_spec(item)
    if spec is None:
        return
    if item["kind"] in {"DaemonSet", "Deployment"}:
        labels = item["spec"]["template"]["metadata"]["labels"]
        yield from _labels(labels)
        wanted = item["spec"]["selector"]["matchLabels"]
        if not wanted or not wanted.items() <= labels.items():
            yield f"the selector {wanted} does not fit {labels}"
    yield from _volumes(spec, list(containers(item)))
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        yield "hostPID and shareProcessNamespace exclude each other"
    for container in containers(item):
        yield from _container(container, spec)


def _labels(labels: dict[str, str]) -> Iterator[str]:
    for key, value in labels.items():
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            yield f"bad label {key}={value}"


def _volumes(spec: Object, all_containers: list[Object]) -> Iterator[str]:
    volumes = [volume["name"] for volume in spec.get("volumes") or ()]
    mounts = {mount["name"] for item in all_containers for mount in item.get("volumeMounts") or ()}
    if len(set(volumes)) != len(volumes):
        yield f"a volume twice: {volumes}"
    for name in mounts - set(volumes):
        yield f"no volume {name}"
    for name in set(volumes) - mounts:
        yield f"nobody mounts {name}"
    names = [item["name"] for item in all_containers]
    if len(set(names)) != len(names):
        yield f"a container twice: {names}"


def _container(container: Object, spec: Object) -> Iterator[str]:
    name = container["name"]
    context = container.get("securityContext") or {}
    added = (context.get("capabilities") or {}).get("add") or ()
    if context.get("allowPrivilegeEscalation") is False and (
        context.get("privileged") or "SYS_ADMIN" in added
    ):
        yield f"{name}: allowPrivilegeEscalation contradicts"
    effective = {**(spec.get("securityContext") or {}), **context}
    if effective.get("runAsNonRoot") and effective.get("runAsUser") == 0:
        yield f"{name}: runAsNonRoot as root"
    paths = [mount["mountPath"].rstrip("/") for mount in container.get("volumeMounts") or ()]
    if len(set(paths)) != len(paths):
        yield f"{name}: a mount path twice: {paths}"
    variables = [item["name"] for item in container.get("env") or ()]
    if len(set(variables)) != len(variables):
        yield f"{name}: a variable twice: {variables}"
    for mount in container.get("volumeMounts") or ():
        if mount.get("mountPropagation") == "Bidirectional" and not context.get("privileged"):
            yield f"{name}: Bidirectional needs privileged"


def _references(items: list[Object]) -> Iterator[str]:
    """Accounts and roles that are referred to and not there."""
    known = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
        for item in items
    }
    for item in items:
        namespace = item["metadata"].get("namespace")
        spec = pod_spec(item) or {}
        account = spec.get("serviceAccountName", "default")
        if account != "default" and ("ServiceAccount", namespace, account) not in known:
            yield f"{_name(item)}: no service account {namespace}/{account}"
        for subject in item.get("subjects") or ():
            key = (subject["kind"], subject.get("namespace", namespace), subject["name"])
            if key not in known and subject["name"] != "default":
                yield f"{_name(item)}: no {key}"
        role = item.get("roleRef")
        if role is not None:
            place = namespace if role["kind"] == "Role" else None
            if (role["kind"], place, role["name"]) not in known:
                yield f"{_name(item)}: no {role['kind']} {role['name']}"


def _name(item: Object) -> str:
    return f"{item['kind']} {item['metadata']['name']}"
