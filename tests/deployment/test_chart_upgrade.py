"""A values file for the nvidia-device-plugin chart 0.19.3 is taken as it is."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from deployment.charts import CHART, GFD, PLUGIN, render, run_helm
from deployment.objects import have_schemas, problems

pytestmark = pytest.mark.usefixtures("helm")

# The defaults of that chart, written down from its specification.
ORIGINAL: dict[str, Any] = {
    "config": {
        "name": "",
        "map": {},
        "default": "",
        "fallbackStrategies": ["named", "single"],
    },
    "compatWithCPUManager": None,
    "migStrategy": None,
    "failOnInitError": None,
    "deviceListStrategy": None,
    "deviceIDStrategy": None,
    "nvidiaDriverRoot": None,
    "gdrcopyEnabled": None,
    "gdsEnabled": None,
    "mofedEnabled": None,
    "deviceDiscoveryStrategy": None,
    "nameOverride": "",
    "fullnameOverride": "",
    "namespaceOverride": "",
    "selectorLabelsOverride": {},
    "allowDefaultNamespace": False,
    "imagePullSecrets": [],
    "image": {
        "repository": "nvcr.io/nvidia/k8s-device-plugin",
        "pullPolicy": "IfNotPresent",
        "tag": "",
    },
    "updateStrategy": {"type": "RollingUpdate"},
    "podAnnotations": {},
    "podSecurityContext": {},
    "securityContext": {},
    "resources": {},
    "nodeSelector": {},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
                    for key, value in (
                        ("feature.node.kubernetes.io/pci-10de.present", "true"),
                        ("feature.node.kubernetes.io/cpu-model.vendor_id", "NVIDIA"),
                        ("nvidia.com/gpu.present", "true"),
                    )
                ]
            }
        }
    },
    "tolerations": [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ],
    "priorityClassName": "system-node-critical",
    "runtimeClassName": None,
    "devicePlugin": {"enabled": True},
    "gfd": {
        "enabled": False,
        "nameOverride": "gpu-feature-discovery",
        "namespaceOverride": "",
        "noTimestamp": None,
        "sleepInterval": None,
        "securityContext": {"privileged": True},
    },
    "nfd": {
        "nameOverride": "node-feature-discovery",
        "master": {
            "serviceAccount": {"name": "node-feature-discovery", "create": True},
            "config": {"extraLabelNs": ["nvidia.com"]},
        },
        "worker": {
            "tolerations": [
                {
                    "key": "node-role.kubernetes.io/master",
                    "operator": "Equal",
                    "value": "",
                    "effect": "NoSchedule",
                },
                {
                    "key": "nvidia.com/gpu",
                    "operator": "Equal",
                    "value": "present",
                    "effect": "NoSchedule",
                },
            ],
            "config": {
                "sources": {
                    "pci": {
                        "deviceClassWhitelist": ["02", "03"],
                        "deviceLabelFields": ["vendor"],
                    }
                }
            },
        },
    },
    "mps": {"root": "/run/nvidia/mps", "enableHostPID": True},
    "cdi": {"nvidiaHookPath": None, "featureFlags": None},
}


def test_it_renders_without_a_change() -> None:
    rendered = render(ORIGINAL)

    assert problems(rendered.objects, schemas=have_schemas()) == []
    image = rendered.container(PLUGIN)["image"]
    assert image == "nvcr.io/nvidia/k8s-device-plugin:v0.19.3"


def test_without_its_image_it_is_the_same_as_the_defaults() -> None:
    values = {name: value for name, value in ORIGINAL.items() if name != "image"}

    assert render(values) == render()


def test_the_defaults_are_those_of_the_original() -> None:
    ours = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    differences = {"image.repository", "nfd.worker.tolerations"}

    def compare(original: dict[str, Any], here: dict[str, Any], prefix: str) -> None:
        for name, value in original.items():
            path = prefix + name
            assert name in here, path
            if isinstance(value, dict) and value and path != "affinity":
                compare(value, here[name], f"{path}.")
            elif path not in differences:
                assert here[name] == value, path

    compare(ORIGINAL, ours, "")


def test_values_on_the_command_line_as_users_write_them() -> None:
    rendered = render(
        {},
        *("--set", "gfd.enabled=true,migStrategy=mixed,compatWithCPUManager=true"),
        *("--set", "runtimeClassName=nvidia,failOnInitError=false"),
        *("--set-string", "nodeSelector.nvidia\\.com/gpu=true"),
    )

    assert rendered.environ(PLUGIN)["FAIL_ON_INIT_ERROR"] == "false"
    assert rendered.environ(GFD)["MIG_STRATEGY"] == "mixed"
    assert rendered.pod(GFD)["nodeSelector"] == {"nvidia.com/gpu": "true"}
    assert rendered.pod(PLUGIN)["runtimeClassName"] == "nvidia"


def test_a_configuration_from_a_file(tmp_path: Any) -> None:
    """As in NVIDIA/k8s-device-plugin#1668."""
    text = "version: v1\nflags:\n  migStrategy: none\nsharing:\n  timeSlicing:\n"
    text += "    resources:\n    - name: nvidia.com/gpu\n      replicas: 10\n"
    path = tmp_path / "dp-example-config0.yaml"
    path.write_text(text)

    rendered = render({}, "--set-file", f"config.map.config={path}")

    assert rendered.get("ConfigMap", "nvdp-gpu-device-plugin-configs")["data"] == {"config": text}


def test_a_package_can_be_made_and_used(tmp_path: Any) -> None:
    run_helm("package", str(CHART), "--destination", str(tmp_path))

    (package,) = tmp_path.glob("gpu-device-plugin-*.tgz")
    assert render({"gfd": {"enabled": True}}, chart=package) == render({"gfd": {"enabled": True}})
