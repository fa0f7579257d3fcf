"""The static manifests and examples are what users of the original know, and work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from deployment.charts import (
    AGENT,
    PLUGIN,
    ROOT,
    Object,
    containers,
    environ,
    parse_all,
    pod_spec,
    read_manifest,
    render,
)
from deployment.objects import have_schemas, problems
from deployment.programs import command_line, finish, running, variables
from support.aio import run
from support.apiserver import ApiServer

import gpu_device_plugin
from gpu_device_plugin.config.testing import load_text
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet

STATIC = ROOT / "deployments" / "static"
EXAMPLES = ROOT / "deployments" / "examples"
MANIFESTS = sorted([*STATIC.iterdir(), *EXAMPLES.glob("*.yml"), *EXAMPLES.glob("pods/*.yml")])
OURS = [path for path in MANIFESTS if "image: gpu-device-plugin:" in path.read_text()]
TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
GFD_LABELS = {
    "app.kubernetes.io/name": "gpu-feature-discovery",
    "app.kubernetes.io/part-of": "nvidia-gpu",
}
FILE = {"GFD_USE_NODE_FEATURE_API": "false"}
"""Without it, and without a node name, the original's manifests end with an error."""


def read(name: str) -> list[Object]:
    return list(read_manifest(next(path for path in MANIFESTS if path.name == name)))


def daemonset(name: str) -> Object:
    (found,) = (item for item in read(name) if item["kind"] == "DaemonSet")
    return found


def spec_of(item: Object) -> Object:
    spec = pod_spec(item)
    assert spec is not None
    return spec


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_valid(path: Path) -> None:
    if not have_schemas():
        pytest.skip("no Kubernetes schemas; run tools/build_deployment_tools.py")
    text = path.read_text(encoding="utf-8").replace("NODE_NAME", "node1")

    assert problems(parse_all(text)) == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_the_tag_of_our_image_is_the_version_of_the_project(path: Path) -> None:
    version = gpu_device_plugin.__version__
    text = path.read_text(encoding="utf-8")

    for tag in re.findall(r"gpu-device-plugin:(\S+)", text):
        assert tag in {f"v{version}", f"v{version}-root"}
    for label in re.findall(r"app.kubernetes.io/version: (\S+)", text):
        assert label == version


def test_the_files_of_the_original_are_there() -> None:
    assert {path.name for path in STATIC.iterdir()} == {
        "nvidia-device-plugin.yml",
        "nvidia-device-plugin-compat-with-cpumanager.yml",
        "nvidia-device-plugin-privileged-with-service-account.yml",
        "gpu-feature-discovery-daemonset.yaml",
        "gpu-feature-discovery-daemonset-with-mig-single.yaml",
        "gpu-feature-discovery-daemonset-with-mig-mixed.yaml",
        "gpu-feature-discovery-job.yaml.template",
        # What the original lacks.
        "gpu-feature-discovery-daemonset-with-node-feature.yaml",
    }


# File, namespace, variables, privileged, type of the host path.
PLUGINS: list[tuple[str, str, dict[str, str], bool, str]] = [
    ("nvidia-device-plugin.yml", "kube-system", {}, False, "Directory"),
    (
        "nvidia-device-plugin-compat-with-cpumanager.yml",
        "kube-system",
        {"PASS_DEVICE_SPECS": "true"},
        True,
        "Directory",
    ),
    (
        "nvidia-device-plugin-privileged-with-service-account.yml",
        "nvidia-device-plugin",
        {"PASS_DEVICE_SPECS": "true"},
        True,
        "DirectoryOrCreate",
    ),
]


@pytest.mark.parametrize(("name", "namespace", "env", "privileged", "kind"), PLUGINS)
def test_device_plugins(
    name: str, namespace: str, env: dict[str, str], privileged: bool, kind: str
) -> None:
    item = daemonset(name)
    spec = spec_of(item)
    (container,) = containers(item)
    context = container["securityContext"]

    assert item["metadata"] == {"name": "nvidia-device-plugin-daemonset", "namespace": namespace}
    assert item["spec"]["selector"] == {"matchLabels": {"name": "nvidia-device-plugin-ds"}}
    assert item["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    assert spec["tolerations"] == [TAINT]
    assert spec["priorityClassName"] == "system-node-critical"
    assert "affinity" not in spec
    assert container["name"] == "nvidia-device-plugin-ctr"
    assert "command" not in container
    assert environ(container) == env
    assert spec["volumes"] == [
        {
            "name": "kubelet-device-plugins-dir",
            "hostPath": {"path": "/var/lib/kubelet/device-plugins", "type": kind},
        }
    ]
    assert context["runAsUser"] == 0
    if privileged:
        assert context["privileged"] is True
    else:
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False


def test_the_privileged_one_has_a_namespace_and_an_account() -> None:
    items = {item["kind"]: item for item in read(PLUGINS[2][0])}

    labels = items["Namespace"]["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "privileged"}
    assert items["Role"]["rules"] == [
        {
            "apiGroups": ["security.openshift.io"],
            "resources": ["securitycontextconstraints"],
            "resourceNames": ["privileged"],
            "verbs": ["use"],
        }
    ]
    account = items["ServiceAccount"]["metadata"]["name"]
    assert spec_of(items["DaemonSet"])["serviceAccountName"] == account
    assert items["RoleBinding"]["subjects"][0]["name"] == account


LABELERS = {
    "gpu-feature-discovery-daemonset.yaml": {"MIG_STRATEGY": "none"},
    "gpu-feature-discovery-daemonset-with-mig-single.yaml": {
        "MIG_STRATEGY": "single",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
    },
    "gpu-feature-discovery-daemonset-with-mig-mixed.yaml": {
        "MIG_STRATEGY": "mixed",
        "NVIDIA_MIG_MONITOR_DEVICES": "all",
    },
}


@pytest.mark.parametrize("name", LABELERS)
def test_gpu_feature_discovery(name: str) -> None:
    item = daemonset(name)
    spec = spec_of(item)
    (container,) = containers(item)

    labels = {**GFD_LABELS, "app.kubernetes.io/version": gpu_device_plugin.__version__}
    assert item["metadata"] == {"name": "gpu-feature-discovery", "labels": labels}
    assert item["spec"]["selector"] == {"matchLabels": GFD_LABELS}
    assert item["spec"]["template"]["metadata"]["labels"] == labels
    assert container["command"] == ["/usr/bin/gpu-feature-discovery"]
    assert environ(container) == FILE | LABELERS[name]
    assert container["securityContext"]["privileged"] is True
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {FEATURES, "/sys"}
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert len(terms["nodeSelectorTerms"]) == 3
    assert "tolerations" not in spec
    assert "serviceAccountName" not in spec


def test_the_job() -> None:
    (item,) = read("gpu-feature-discovery-job.yaml.template")
    spec = spec_of(item)
    (container,) = containers(item)

    assert item["kind"] == "Job"
    assert spec["nodeName"] == "NODE_NAME"
    assert spec["restartPolicy"] == "Never"
    assert "affinity" not in spec
    assert container["args"] == ["--oneshot"]
    assert environ(container) == FILE


@pytest.mark.parametrize("name", [name for name, *_ in PLUGINS] + ["plain-daemonset.yml"])
def test_the_plugin_serves_as_told(name: str, tmp_path: Path) -> None:
    (container,) = containers(daemonset(name))
    env = variables(
        container,
        GPU_NODE_SIMULATE="dgx-a100",
        GPU_NODE_PLUGIN_DIR=str(tmp_path),
        KUBELET_SOCKET=str(tmp_path / "kubelet.sock"),
    )

    async def serve() -> int:
        async with (
            SimulatedKubelet(str(tmp_path)) as kubelet,
            running(command_line(container), env),
        ):
            view = await kubelet.until(
                lambda view: view.resource("nvidia.com/gpu").allocatable == 8, "8 GPUs"
            )
            return view.resource("nvidia.com/gpu").allocatable

    assert run(serve()) == 8


@pytest.mark.parametrize(
    ("name", "profile", "wanted"),
    [
        ("gpu-feature-discovery-daemonset.yaml", "dgx-a100", "nvidia.com/gpu.count=8"),
        (
            "gpu-feature-discovery-daemonset-with-mig-single.yaml",
            "dgx-a100-mig-single",
            "nvidia.com/gpu.count=56",
        ),
        (
            "gpu-feature-discovery-daemonset-with-mig-mixed.yaml",
            "dgx-a100-mig",
            "nvidia.com/mig.strategy=mixed",
        ),
        ("gpu-feature-discovery-job.yaml.template", "dgx-a100", "nvidia.com/gpu.count=8"),
    ],
)
def test_labels_are_written_as_told(name: str, profile: str, wanted: str, tmp_path: Path) -> None:
    (container,) = containers(read(name)[-1])
    output = tmp_path / "gfd"
    env = variables(
        container, GPU_NODE_SIMULATE=profile, GFD_OUTPUT_FILE=str(output), GFD_ONESHOT="true"
    )

    code, log = run(finish(command_line(container), env))

    assert code == 0, log
    assert wanted in output.read_text().splitlines()


def test_a_node_feature_object_is_published_as_told(tmp_path: Path) -> None:
    (container,) = containers(daemonset("gpu-feature-discovery-daemonset-with-node-feature.yaml"))
    with ApiServer() as server:
        server.store.put("/api/v1/nodes/node1")
        env = variables(
            container,
            GPU_NODE_SIMULATE="dgx-a100",
            GFD_ONESHOT="true",
            KUBECONFIG=server.kubeconfig(tmp_path),
        )

        code, log = run(finish(command_line(container), env))

        published = server.count(
            "POST", "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures"
        )
    assert code == 0, log
    assert published == 1


def test_examples_of_pods() -> None:
    limits = {
        path.stem: container["resources"]["limits"]
        for path in EXAMPLES.glob("pods/*.yml")
        for item in read_manifest(path)
        for container in containers(item)
    }
    affinity = spec_of(read("node-affinity.yml")[0])["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert limits == {
        "exclusive": {"nvidia.com/gpu": 1},
        "two-gpus": {"nvidia.com/gpu": 2},
        "time-sliced": {"nvidia.com/gpu": 1},
        "mps": {"nvidia.com/gpu": 1},
        "mig": {"nvidia.com/mig-1g.5gb": 1},
        "node-affinity": {"nvidia.com/gpu": 1},
        "tainted-node": {"nvidia.com/gpu": 1},
        "gpu-model": {"nvidia.com/gpu": 1},
    }
    assert terms == [
        {"matchExpressions": [{"key": "accelerator", "operator": "In", "values": ["nvidia-gpu"]}]}
    ]
    assert spec_of(read("tainted-node.yml")[0])["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    ]


def test_the_configuration_called_any() -> None:
    (item,) = read("time-slicing-configmap.yml")

    (text,) = [item["data"]["any"]]
    loaded = load_text(text)

    assert not loaded.warnings
    assert loaded.config.flags.mig_strategy == "none"
    assert loaded.config.sharing.time_slicing is not None
    (resource,) = loaded.config.sharing.time_slicing.resources
    assert (resource.name, resource.replicas) == ("nvidia.com/gpu", 4)


def test_the_plain_one_is_that_of_users_with_another_image() -> None:
    item = daemonset("plain-daemonset.yml")
    spec = spec_of(item)
    (container,) = containers(item)

    assert item["metadata"]["namespace"] == "kube-system"
    assert set(spec) == {"tolerations", "containers", "volumes"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["image"].endswith("-root")


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("values/*.yaml")), ids=lambda path: path.name)
def test_examples_of_values(path: Path) -> None:
    rendered = render({"strictValues": True}, "--values", str(path))

    assert {PLUGIN, AGENT} & rendered.components()
    schemas = have_schemas()
    found: list[Any] = problems(rendered.objects, schemas=schemas)
    assert found == []
