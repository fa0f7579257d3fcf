"""The objects of the nvidia-device-plugin chart 0.19.3, written down as data, are what is rendered.

What differs on purpose stands in DIFFERENCES, and nowhere else.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from deployment.charts import CHART, GFD, MPS, PLUGIN, Object, Rendered, environ, render

import gpu_device_plugin

pytestmark = pytest.mark.usefixtures("helm")

FULL = "nvdp-gpu-device-plugin"
CONFIGURED: dict[str, Any] = {
    "config": {"map": {"default": "version: v1", "other": "version: v1"}},
    "gfd": {"enabled": True},
    "migStrategy": "mixed",
    "nvidiaDriverRoot": "/run/nvidia/driver",
}
PLAIN: dict[str, Any] = {"gfd": {"enabled": True}}

# Component, its containers in their order and their commands: (name, command, only with configs).
CONTAINERS = {
    PLUGIN: [
        ("nvidia-device-plugin-init", ["config-manager"], True),
        ("nvidia-device-plugin-sidecar", ["config-manager"], True),
        ("nvidia-device-plugin-ctr", ["nvidia-device-plugin"], False),
    ],
    GFD: [
        ("gpu-feature-discovery-init", ["config-manager"], True),
        ("gpu-feature-discovery-sidecar", ["config-manager"], True),
        ("gpu-feature-discovery-ctr", ["gpu-feature-discovery"], False),
    ],
    MPS: [
        ("mps-control-daemon-mounts", ["mps-control-daemon", "mount-shm"], False),
        ("mps-control-daemon-init", ["config-manager"], True),
        ("mps-control-daemon-sidecar", ["config-manager"], True),
        ("mps-control-daemon-ctr", ["mps-control-daemon"], False),
    ],
}

FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
# Component: volume, its source, and the mount in the main container.
VOLUMES: dict[str, dict[str, tuple[Object, Object]]] = {
    PLUGIN: {
        "kubelet-device-plugins-dir": (
            {"path": "/var/lib/kubelet/device-plugins", "type": "Directory"},
            {"mountPath": "/var/lib/kubelet/device-plugins"},
        ),
        "mps-shm": ({"path": "/run/nvidia/mps/shm"}, {"mountPath": "/dev/shm"}),
        "mps-root": (
            {"path": "/run/nvidia/mps", "type": "DirectoryOrCreate"},
            {"mountPath": "/mps"},
        ),
        "cdi-root": (
            {"path": "/var/run/cdi", "type": "DirectoryOrCreate"},
            {"mountPath": "/var/run/cdi"},
        ),
    },
    GFD: {
        "output-dir": ({"path": FEATURES, "type": "DirectoryOrCreate"}, {"mountPath": FEATURES}),
        "host-sys": (
            {"path": "/sys", "type": "Directory"},
            {"mountPath": "/sys", "readOnly": True},
        ),
    },
    MPS: {
        "mps-root": (
            {"path": "/run/nvidia/mps", "type": "DirectoryOrCreate"},
            {"mountPath": "/mps"},
        ),
        "mps-shm": ({"path": "/run/nvidia/mps/shm"}, {"mountPath": "/dev/shm"}),
    },
}

# Component: variables of the main container in their order, with everything of CONFIGURED.
VARIABLES = {
    PLUGIN: {
        "MPS_ROOT": "/run/nvidia/mps",
        "MIG_STRATEGY": "mixed",
        "NVIDIA_DRIVER_ROOT": "/run/nvidia/driver",
        "CONFIG_FILE": "/config/config.yaml",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    },
    GFD: {
        "NODE_NAME": "<spec.nodeName>",
        "NAMESPACE": "<metadata.namespace>",
        "POD_NAME": "<metadata.name>",
        "MIG_STRATEGY": "mixed",
        "CONFIG_FILE": "/config/config.yaml",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
    },
    MPS: {
        "NODE_NAME": "<spec.nodeName>",
        "MIG_STRATEGY": "mixed",
        "CONFIG_FILE": "/config/config.yaml",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    },
}

# Variables of the config-managers: (in the init container, in the sidecar).
MANAGER = {
    "ONESHOT": ("true", "false"),
    "KUBECONFIG": ("", ""),
    "NODE_NAME": ("<spec.nodeName>", "<spec.nodeName>"),
    "NODE_LABEL": ("nvidia.com/device-plugin.config", "nvidia.com/device-plugin.config"),
    "CONFIG_FILE_SRCDIR": ("/available-configs", "/available-configs"),
    "CONFIG_FILE_DST": ("/config/config.yaml", "/config/config.yaml"),
    "DEFAULT_CONFIG": ("", ""),
    "FALLBACK_STRATEGIES": ("named,single", "named,single"),
    "SEND_SIGNAL": ("false", "true"),
    "SIGNAL": ("", "1"),
}
PROCESSES = {
    PLUGIN: "nvidia-device-plugin",
    GFD: "gpu-feature-discovery",
    MPS: "/usr/bin/mps-control-daemon",
}

# Objects beside the DaemonSets, where the original has them: (kind, name).
ACCESS = {
    ("ServiceAccount", f"{FULL}-service-account"),
    ("ClusterRole", f"{FULL}-role"),
    ("ClusterRoleBinding", f"{FULL}-role-binding"),
    ("ConfigMap", f"{FULL}-configs"),
}
NFD = "nvdp-node-feature-discovery"
NFD_OBJECTS = {
    ("ServiceAccount", "node-feature-discovery"),
    ("ServiceAccount", f"{NFD}-worker"),
    ("ServiceAccount", f"{NFD}-gc"),
    ("ConfigMap", f"{NFD}-master-conf"),
    ("ConfigMap", f"{NFD}-worker-conf"),
    ("ClusterRole", NFD),
    ("ClusterRoleBinding", NFD),
    ("ClusterRole", f"{NFD}-gc"),
    ("ClusterRoleBinding", f"{NFD}-gc"),
    ("Role", f"{NFD}-worker"),
    ("RoleBinding", f"{NFD}-worker"),
    ("DaemonSet", f"{NFD}-worker"),
    ("Deployment", f"{NFD}-master"),
    ("Deployment", f"{NFD}-gc"),
    ("ServiceAccount", f"{NFD}-prune"),
    ("ClusterRole", f"{NFD}-prune"),
    ("ClusterRoleBinding", f"{NFD}-prune"),
    ("Job", f"{NFD}-prune"),
}
CRDS = {
    ("CustomResourceDefinition", f"{name}.nfd.k8s-sigs.io")
    for name in ("nodefeatures", "nodefeaturegroups", "nodefeaturerules")
}

# Least privilege: gpu-feature-discovery has an account of its own, with rights in its namespace.
DIFFERENCES = {
    ("ServiceAccount", f"{FULL}-gpu-feature-discovery-service-account"),
    ("Role", f"{FULL}-gpu-feature-discovery-role"),
    ("RoleBinding", f"{FULL}-gpu-feature-discovery-role-binding"),
}


@pytest.fixture(scope="module", name="configured")
def _configured() -> Rendered:
    return render(CONFIGURED, "--include-crds")


@pytest.fixture(scope="module", name="plain")
def _plain() -> Rendered:
    return render(PLAIN)


def test_all_objects(configured: Rendered) -> None:
    daemonsets = {
        ("DaemonSet", FULL),
        ("DaemonSet", f"{FULL}-gpu-feature-discovery"),
        ("DaemonSet", f"{FULL}-mps-control-daemon"),
    }

    names = configured.names()

    assert set(names) == daemonsets | ACCESS | NFD_OBJECTS | CRDS | DIFFERENCES
    assert len(names) == len(set(names))


def test_objects_of_the_defaults() -> None:
    assert set(render().names()) == {
        ("ServiceAccount", f"{FULL}-service-account"),
        ("DaemonSet", FULL),
        ("DaemonSet", f"{FULL}-mps-control-daemon"),
    }


@pytest.mark.parametrize("component", [PLUGIN, GFD, MPS])
def test_containers(component: str, configured: Rendered, plain: Rendered) -> None:
    def found(rendered: Rendered) -> list[tuple[str, list[str]]]:
        pod = rendered.pod(component)
        everything = [*pod.get("initContainers", ()), *pod["containers"]]
        return [(item["name"], item["command"]) for item in everything]

    table = CONTAINERS[component]
    assert found(configured) == [(name, command) for name, command, _ in table]
    assert found(plain) == [(name, command) for name, command, only in table if not only]
    # A key without a value, as the original has it, is refused by strict clients.
    assert "initContainers" in plain.pod(component) or component != MPS
    assert plain.pod(component).get("initContainers", [0])


@pytest.mark.parametrize("component", [PLUGIN, GFD, MPS])
def test_variables_in_their_order(component: str, configured: Rendered) -> None:
    assert list(configured.environ(component).items()) == list(VARIABLES[component].items())


@pytest.mark.parametrize("component", [PLUGIN, GFD, MPS])
def test_config_managers(component: str, configured: Rendered) -> None:
    init, sidecar = (
        configured.environ(component, name)
        for name, command, _ in CONTAINERS[component]
        if command == ["config-manager"]
    )

    assert init == {**{k: v[0] for k, v in MANAGER.items()}, "PROCESS_TO_SIGNAL": ""}
    assert sidecar == {
        **{k: v[1] for k, v in MANAGER.items()},
        "PROCESS_TO_SIGNAL": PROCESSES[component],
    }
    for name, command, only in CONTAINERS[component]:
        if only and command == ["config-manager"]:
            mounts = configured.container(component, name)["volumeMounts"]
            assert {m["name"]: m["mountPath"] for m in mounts} == {
                "available-configs": "/available-configs",
                "config": "/config",
            }


def test_config_manager_is_told_default_and_fallbacks() -> None:
    config = {"name": "mine", "default": "x", "fallbackStrategies": ["empty"]}

    for name in ("nvidia-device-plugin-init", "nvidia-device-plugin-sidecar"):
        variables = render({"config": config}).environ(PLUGIN, name)
        assert variables["DEFAULT_CONFIG"] == "x"
        assert variables["FALLBACK_STRATEGIES"] == "empty"


@pytest.mark.parametrize("component", [PLUGIN, GFD, MPS])
def test_volumes(component: str, configured: Rendered, plain: Rendered) -> None:
    with_configs: dict[str, Object] = {
        "available-configs": {"configMap": {"name": f"{FULL}-configs"}},
        "config": {"emptyDir": {}},
    }
    if component == PLUGIN:
        root = {"path": "/run/nvidia/driver", "type": "Directory"}
        with_configs["driver-root"] = {"hostPath": root}
    table = VOLUMES[component]
    always = {name: {"hostPath": source} for name, (source, _) in table.items()}

    assert _by_name(plain.pod(component)["volumes"]) == always
    assert _by_name(configured.pod(component)["volumes"]) == {**always, **with_configs}
    mounts = _by_name(plain.container(component)["volumeMounts"])
    assert mounts == {name: mount for name, (_, mount) in table.items()}
    mounts = _by_name(configured.container(component)["volumeMounts"])
    assert mounts["available-configs"] == {"mountPath": "/available-configs"}
    assert mounts["config"] == {"mountPath": "/config"}


def _by_name(items: list[Object]) -> dict[str, Object]:
    return {item["name"]: {k: v for k, v in item.items() if k != "name"} for item in items}


def test_the_mount_that_the_host_sees(plain: Rendered) -> None:
    assert plain.container(MPS, "mps-control-daemon-mounts")["volumeMounts"] == [
        {"name": "mps-root", "mountPath": "/mps", "mountPropagation": "Bidirectional"}
    ]


def test_shared_processes(configured: Rendered, plain: Rendered) -> None:
    for component in (PLUGIN, GFD):
        assert configured.pod(component)["shareProcessNamespace"] is True
        assert "shareProcessNamespace" not in plain.pod(component)
    assert configured.pod(MPS)["hostPID"] is True


def test_labels(configured: Rendered) -> None:
    for item in configured.objects:
        if item["metadata"]["name"].startswith(FULL):
            labels = dict(item["metadata"]["labels"])
            labels.pop("app.kubernetes.io/component", None)
            assert labels == {
                "helm.sh/chart": "gpu-device-plugin-0.19.3",
                "app.kubernetes.io/name": "gpu-device-plugin",
                "app.kubernetes.io/instance": "nvdp",
                "app.kubernetes.io/version": "0.19.3",
                "app.kubernetes.io/managed-by": "Helm",
            }


def rules(item: Object) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in item["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_rights_are_those_that_programs_use(configured: Rendered) -> None:
    cluster = configured.get("ClusterRole", f"{FULL}-role")
    role = configured.get("Role", f"{FULL}-gpu-feature-discovery-role")

    assert rules(cluster) == {("", "nodes", verb) for verb in ("get", "list", "watch")}
    assert rules(role) == {
        ("nfd.k8s-sigs.io", "nodefeatures", "get"),
        ("nfd.k8s-sigs.io", "nodefeatures", "create"),
        ("nfd.k8s-sigs.io", "nodefeatures", "update"),
        ("", "pods", "get"),
    }


def subjects(rendered: Rendered) -> list[str]:
    binding = rendered.get("ClusterRoleBinding", f"{FULL}-role-binding")
    return [subject["name"] for subject in binding["subjects"]]


def test_only_config_managers_may_look_at_nodes(plain: Rendered, configured: Rendered) -> None:
    account = f"{FULL}-service-account"
    gfd = f"{FULL}-gpu-feature-discovery-service-account"

    assert not plain.has("ClusterRole", f"{FULL}-role")
    assert subjects(configured) == [account, gfd]
    assert subjects(render({"config": {"name": "mine"}})) == [account]


def test_tokens_are_for_pods_that_ask_the_api(plain: Rendered, configured: Rendered) -> None:
    def tokens(rendered: Rendered) -> dict[str, bool]:
        return {c: rendered.pod(c)["automountServiceAccountToken"] for c in rendered.components()}

    file_only = render({"gfd": {"enabled": True, "useNodeFeatureAPI": False}})
    assert tokens(plain) == {PLUGIN: False, MPS: False, GFD: True}
    assert tokens(configured) == {PLUGIN: True, MPS: True, GFD: True}
    assert tokens(file_only) == {PLUGIN: False, MPS: False, GFD: False}
    assert not file_only.has("Role", f"{FULL}-gpu-feature-discovery-role")


def test_settings_of_nfd(configured: Rendered) -> None:
    def conf(part: str) -> Any:
        data = configured.get("ConfigMap", f"{NFD}-{part}-conf")["data"]
        return yaml.safe_load(data[f"nfd-{part}.conf"])

    worker = configured.get("DaemonSet", f"{NFD}-worker")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in worker["containers"][0]["volumeMounts"]}
    assert conf("master") == {"extraLabelNs": ["nvidia.com"]}
    assert conf("worker") == {
        "sources": {"pci": {"deviceClassWhitelist": ["02", "03"], "deviceLabelFields": ["vendor"]}}
    }
    # A superset of the original's, which tolerates the taint with the value "present" only.
    assert worker["tolerations"] == [
        {
            "key": "node-role.kubernetes.io/master",
            "operator": "Equal",
            "value": "",
            "effect": "NoSchedule",
        },
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert mounts[FEATURES]["readOnly"] is True
    image = "registry.k8s.io/nfd/node-feature-discovery:v0.17.3"
    assert {c["image"] for c in worker["containers"]} == {image}
    assert "NODE_NAME" in environ(worker["containers"][0])


def test_versions() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))

    assert chart["version"] == chart["appVersion"] == gpu_device_plugin.__version__
    (dependency,) = chart["dependencies"]
    assert dependency["condition"] == "nfd.enabled,gfd.enabled"
    assert dependency["alias"] == "nfd"
    nfd = yaml.safe_load(
        (CHART / "charts" / "node-feature-discovery" / "Chart.yaml").read_text(encoding="utf-8")
    )
    assert nfd["version"] == dependency["version"]
