"""What programs may do at the Kubernetes API, as far as the manifests tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.diagnosis.configurations import (
    OFFERING,
    follows_label,
    publishes_labels,
)
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.manifests import Object
from gpu_device_plugin.diagnosis.pods import Container, Pod
from gpu_device_plugin.diagnosis.tree import Value

_KINDS = frozenset({"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path


@dataclass(frozen=True, slots=True)
class Permission:
    """What a program asks of the API."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    is_cluster_wide: bool = False
    namespace: str = ""
    """Where a Role has to be, if that is not the pod's namespace."""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{', '.join(self.verbs)} {resource}"


def permissions_of(parsed: Parsed, configs: Sequence[Config]) -> Iterator[Permission]:
    """What a program needs, whichever of the configurations it gets."""
    if parsed.values.get("kubeconfig"):
        return  # it comes as somebody else
    if follows_label(parsed):
        verbs = ("get", "list", "watch")
        yield Permission("", "nodes", verbs, "the label of the node", is_cluster_wide=True)
    if publishes_labels(parsed) and any(c.flags.use_node_feature_api for c in configs):
        verbs = ("get", "create", "update")
        yield Permission("nfd.k8s-sigs.io", "nodefeatures", verbs, "the object with the labels")
    if parsed.program in OFFERING:
        reports = parsed.strings("report-health")
        if "node-condition" in reports:
            why = "the condition GPUHealthy"
            yield Permission("", "nodes/status", ("get", "patch"), why, is_cluster_wide=True)
        if "events" in reports:
            why = "events of the node, which are in the namespace default"
            yield Permission("", "events", ("create", "patch"), why, namespace="default")


class Cluster:
    """The accounts, roles and bindings among the objects."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._objects = [item for item in objects if item.kind in _KINDS]

    def check(
        self, container: Container, parsed: Parsed, configs: Sequence[Config]
    ) -> Iterator[Finding]:
        """What a container needs and is not allowed."""
        needed = list(permissions_of(parsed, configs))
        if not needed:
            return
        yield from self._check_token(container)
        for permission in needed:
            yield from self._check_permission(container, permission)

    def _check_token(self, container: Container) -> Iterator[Finding]:
        own = container.pod.spec.get("automountServiceAccountToken")
        account = self._account(container.pod)
        other = account.root.get("automountServiceAccountToken") if account else own
        decides = own if own.exists else other
        if decides.is_false() and container.mount_of(_TOKEN) is None:
            message = f"{container.name} calls the Kubernetes API, and gets no token for it"
            hint = "automountServiceAccountToken: true"
            yield Finding(Severity.ERROR, decides.place, message, hint, container.pod.object.title)

    def _check_permission(self, container: Container, wanted: Permission) -> Iterator[Finding]:
        pod = container.pod
        place = pod.spec.get("serviceAccountName").place
        allowed = set[str]()
        for binding in self._objects:
            if binding.kind.endswith("Binding") and _is_for(binding, pod):
                rules = self._rules(binding)
                if rules is None:
                    return  # a role that somebody else makes
                allowed |= _allowed(rules, wanted) if _reaches(binding, wanted) else set()
        missing = tuple(verb for verb in wanted.verbs if verb not in allowed)
        if not missing:
            return
        lacking = Permission(wanted.group, wanted.resource, missing, wanted.why)
        scope = "a ClusterRole and its binding" if wanted.is_cluster_wide else "a Role"
        if wanted.namespace:
            scope += f" and its binding in the namespace {wanted.namespace}"
        if self._account(pod) is None and not allowed:
            message = f"not checked: whether the account {pod.account} may {lacking}"
            hint = f"{container.name} needs that for {wanted.why}; give {scope} as well"
            yield Finding(Severity.NOTE, place, message, hint, container.title)
        else:
            message = f"the account {pod.account} may not {lacking}"
            hint = f"{container.name} needs that for {wanted.why}: {scope}"
            yield Finding(Severity.ERROR, place, message, hint, container.title)

    def _account(self, pod: Pod) -> Object | None:
        return self._find("ServiceAccount", pod.account, pod.object.namespace)

    def _find(self, kind: str, name: str, namespace: str) -> Object | None:
        for item in self._objects:
            if item.kind == kind and item.name == name and item.namespace in {namespace, ""}:
                return item
        return None

    def _rules(self, binding: Object) -> Value | None:
        role = binding.root.get("roleRef")
        kind = role.get("kind").text
        namespace = binding.namespace if kind == "Role" else ""
        found = self._find(kind, role.get("name").text, namespace)
        return None if found is None else found.root.get("rules")


def _is_for(binding: Object, pod: Pod) -> bool:
    namespace = pod.object.namespace
    for subject in binding.root.get("subjects").items():
        where = subject.get("namespace").text or binding.namespace
        if subject.get("kind").text == "ServiceAccount" and subject.get("name").text == pod.account:
            return not where or not namespace or where == namespace
    return False


def _reaches(binding: Object, wanted: Permission) -> bool:
    """Whether a binding can give a permission at all, by where it is."""
    if binding.kind == "ClusterRoleBinding":
        return True
    known = {wanted.namespace, binding.namespace} - {""}
    return not wanted.is_cluster_wide and (not wanted.namespace or len(known) == 1)


def _allowed(rules: Value, wanted: Permission) -> set[str]:
    """The verbs that rules allow."""
    verbs = set[str]()
    for rule in rules.items():
        if rule.get("resourceNames").exists:
            continue
        groups, resources = _texts(rule, "apiGroups"), _texts(rule, "resources")
        if groups & {wanted.group, "*"} and resources & {wanted.resource, "*"}:
            given = _texts(rule, "verbs")
            verbs |= set(wanted.verbs) if "*" in given else given
    return verbs


def _texts(rule: Value, key: str) -> set[str]:
    return {item.text for item in rule.get(key).items()}
