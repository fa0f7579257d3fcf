"""Checks of what Kubernetes knows of the node: labels, taints, capacity, chosen configuration."""

from __future__ import annotations

from typing import Any

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.edges import Json
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.kubelet import may_plan
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kube.shapes import mapping, objects

PRESENT = ("nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present")
"""By one of these the chart finds the nodes with GPUs."""
CONFIG_LABEL = "nvidia.com/device-plugin.config"
TOLERATED = {"nvidia.com/gpu", "CriticalAddonsOnly"}
"""Taints that the chart's pods tolerate, beside those that every DaemonSet tolerates."""
OF_DAEMON_SETS = "node.kubernetes.io/"
UNSCHEDULABLE = f"{OF_DAEMON_SETS}unschedulable"
OF_CONDITIONS = tuple(
    f"{OF_DAEMON_SETS}{condition}"
    for condition in (
        *("not-ready", "unreachable", "network-unavailable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)
"""Taints that the control plane sets and takes away by itself as the node's conditions change."""
CONFIG_DIRECTORIES = ("/available-configs",)
"""Where the chart mounts the configurations into config-manager's container."""
ACCESS = (
    "--kubeconfig FILE, such as /etc/kubernetes/kubelet.conf on the node, or run it in a pod whose "
    "service account may get nodes"
)
API_LIMIT = 15.0


def _node(host: Host) -> Json | Outcome:
    """The node, or why it is not known."""
    if not host.kubeconfig and "KUBERNETES_SERVICE_HOST" not in host.environ:
        return not_checked("no kubeconfig is given, and this is no pod", ACCESS)
    try:
        return host.node
    except UserError as error:
        step = ACCESS
        if getattr(error, "is_not_found", False):
            step = "--node-name NAME (NODE_NAME): kubectl get nodes"
        return not_checked(f"the node {one_line(host.node_name)}: {one_line(str(error))}", step)


def check_labels(host: Host) -> Outcome:
    """Whether the chart's DaemonSets find this node, and their pods may run on it."""
    node = _node(host)
    if isinstance(node, Outcome):
        return node
    find = Findings()
    labels = mapping(node, "metadata", "labels")
    for name, value in sorted(labels.items()):
        if name in PRESENT or name.startswith("nvidia.com/"):
            find.saw(f"label {name}={value}")
    name = host.node_name
    if not any(str(labels.get(label, "")) == "true" for label in PRESENT):
        find.fail(
            f"the node has none of the labels {' and '.join(PRESENT)}=true: the chart's pods do "
            "not come here",
            "gfd.enabled=true and nfd.enabled=true, and does NFD's worker run on this node?",
            f"by hand: kubectl label node {name} {PRESENT[0]}=true",
        )
    elif not any(label.startswith("nvidia.com/gpu.") for label in labels if label not in PRESENT):
        find.warn(
            "GPU feature discovery has not labelled the node: no label nvidia.com/gpu.product",
            "the log of gpu-feature-discovery; kubectl get nodefeatures -A",
        )
    for taint in objects(node, "spec", "taints"):
        key, effect = str(taint.get("key")), str(taint.get("effect"))
        find.saw(f"taint {key}={taint.get('value', '')}:{effect}")
        if key not in TOLERATED and effect != "PreferNoSchedule":
            passing = key.startswith(OF_DAEMON_SETS)
            steps = {
                UNSCHEDULABLE: f"kubectl uncordon {name}",
                **dict.fromkeys(OF_CONDITIONS, f"kubectl describe node {name}: its conditions"),
            }
            find.warn(
                f"the taint {key}:{effect} keeps pods with GPUs away"
                + ("" if passing else ", and the chart's as well"),
                steps.get(
                    key,
                    f"tolerations for {key} (Helm: tolerations, nfd.worker.tolerations), or kubectl "
                    f"taint node {name} {key}-",
                ),
            )
    return find.outcome(f"{len(labels)} labels, those that the chart looks for are there")


def check_capacity(host: Host) -> Outcome:
    """Whether the node offers what the plugin would offer."""
    node = _node(host)
    if isinstance(node, Outcome):
        return node
    find = Findings()
    capacity = mapping(node, "status", "capacity")
    allocatable = mapping(node, "status", "allocatable")
    told = {name for name in capacity if name.startswith("nvidia.com/")}
    for name in sorted(told):
        find.saw(f"{name}: capacity {capacity[name]}, allocatable {allocatable.get(name, 0)}")
    offered = _offered(host, find)
    for name, size in (offered or {}).items():
        now = _whole(capacity.get(name))
        if now != size:
            find.fail(
                f"{name}: the plugin would offer {size}, the node has {now}",
                "the log of the plugin: is there a line 'registered resource='? The kubelet takes "
                "up to a minute to update the node",
            )
    for name in sorted(told - set(offered or {})):
        if offered is not None and _whole(capacity[name]):
            find.warn(
                f"{name}: the node has {capacity[name]}, the plugin with these options offers none",
                "another plugin, or other options: kubectl get daemonset -A | grep device-plugin",
            )
    for name in sorted(told):
        lacking = _whole(capacity[name]) - _whole(allocatable.get(name))
        if lacking > 0:
            find.fail(
                f"{name}: {lacking} of {capacity[name]} are unhealthy",
                "grep unhealthy in the plugin's log tells which and why",
            )
    if not told and not offered:
        return not_checked(
            "the node has no nvidia.com/ resources, and none are expected",
            evidence=tuple(find.evidence),
        )
    return find.outcome(", ".join(f"{n}: {allocatable.get(n, 0)}" for n in sorted(told)))


def _offered(host: Host, find: Findings) -> dict[str, int] | None:
    if not may_plan(host):
        find.gap("what the plugin would offer cannot be told from here")
        return None
    try:
        return {resource.name: resource.size for resource in host.plan.resources}
    except UserError as error:
        find.gap(f"what the plugin would offer cannot be told: {one_line(str(error))}")
        return None


def check_profile(host: Host) -> Outcome:
    """Whether the configuration that the node's label names is there."""
    node = _node(host)
    if isinstance(node, Outcome):
        return node
    find = Findings()
    value = str(mapping(node, "metadata", "labels").get(CONFIG_LABEL, ""))
    find.saw(f"label {CONFIG_LABEL}={value}" if value else f"no label {CONFIG_LABEL}")
    if not value:
        return find.outcome("the node's label names no configuration: the default applies")
    given = host.environ.get("CONFIG_FILE_SRCDIR", "")
    directory = next((d for d in (given, *CONFIG_DIRECTORIES) if d and host.exists(d)), "")
    if not directory:
        return not_checked(
            f"the label names {value}; the directory with the configurations is not seen from here",
            "kubectl exec into the container config-manager, or set CONFIG_FILE_SRCDIR",
            evidence=tuple(find.evidence),
        )
    names = [name for name in host.files.listdir(directory) if not name.startswith("..")]
    find.saw(f"{host.files.outer(directory)}: {', '.join(names) or 'empty'}")
    if value not in names:
        find.fail(
            f"the label {CONFIG_LABEL} names {one_line(value)!r}, and "
            f"{host.files.outer(directory)} holds {', '.join(names) or 'no configuration'}",
            f"kubectl label node {host.node_name} --overwrite {CONFIG_LABEL}="
            f"{names[0] if names else 'NAME'}, or add it to the ConfigMap",
        )
    return find.outcome(f"{value} is there")


def _whole(value: Any) -> int:
    """A quantity of an extended resource; these are whole numbers (``8``, ``4k`` is never sent)."""
    text = str(value or 0)
    return int(text) if text.isdigit() else 0


CHECKS = (
    Check(
        "node-labels",
        Group.KUBERNETES,
        "the node's labels and taints let the chart's pods and pods with GPUs come",
        "troubleshooting.md#no-pods",
        check_labels,
        seconds=API_LIMIT,
    ),
    Check(
        "node-capacity",
        Group.KUBERNETES,
        "capacity and allocatable are what the plugin would offer",
        "operations.md#troubleshooting-by-symptom",
        check_capacity,
        seconds=API_LIMIT,
    ),
    Check(
        "node-config",
        Group.KUBERNETES,
        "the configuration that the node's label names is there",
        "troubleshooting.md#configurations",
        check_profile,
        seconds=API_LIMIT,
    ),
)
