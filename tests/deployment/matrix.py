"""Sets of values that have to render, one for each value of the chart and for what goes together."""

from __future__ import annotations

from typing import Any

from deployment.charts import ROOT

EXAMPLES = ROOT / "docs" / "examples" / "config"
TIME_SLICING = """\
version: v1
sharing:
  timeSlicing:
    resources:
      - {name: nvidia.com/gpu, replicas: 4}
"""
MPS = """\
version: v1
sharing:
  mps:
    resources:
      - {name: nvidia.com/gpu, replicas: 10}
"""
MIXED = "version: v1\nflags: {migStrategy: mixed}\n"
VOLUMES = "version: v1\nflags:\n  plugin: {deviceListStrategy: volume-mounts}\n"
SIMULATED_NODE = "gpus: [{product: NVIDIA A100-SXM4-40GB, count: 2}]\n"

MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    # Configuration files.
    "config: a ConfigMap that is there": {"config": {"name": "my-configs"}},
    "config: one called default": {"config": {"map": {"default": TIME_SLICING}}},
    "config: the only one": {"config": {"map": {"any": TIME_SLICING}}},
    "config: several, named": {"config": {"map": {"default": "version: v1\n", "mps": MPS}}},
    "config: several, chosen": {"config": {"map": {"a": MPS, "b": MIXED}, "default": "a"}},
    "config: several, or none": {
        "config": {"map": {"a": MPS, "b": MIXED}, "fallbackStrategies": ["named", "empty"]}
    },
    "config: YAML instead of text": {
        "config": {"map": {"any": {"version": "v1", "flags": {"migStrategy": "single"}}}}
    },
    "config: text that begins with blanks": {
        "config": {"map": {"any": "  version: v1\n  flags: {migStrategy: none}"}}
    },
    "config: an empty one": {"config": {"map": {"any": ""}}},
    "config: JSON": {"config": {"map": {"any": '{"version": "v1", "flags": {}}'}}},
    "config: volume-mounts": {"config": {"map": {"any": VOLUMES}}},
    "config: validated": {
        "config": {"map": {"any": MPS}},
        "configManager": {"validate": True, "resources": {"limits": {"memory": "64Mi"}}},
    },
    "config: in another namespace for gfd": {
        "config": {"map": {"any": MPS}},
        "gfd": {"enabled": True, "namespaceOverride": "labels"},
    },
    **{
        f"config: {path.stem} of the documentation": {
            "config": {"map": {path.stem: path.read_text(encoding="utf-8")}}
        }
        for path in sorted(EXAMPLES.glob("*.yaml"))
    },
    # Options.
    **{f"migStrategy {value}": {"migStrategy": value} for value in ("none", "single", "mixed")},
    "migStrategy over a file": {"migStrategy": "none", "config": {"map": {"any": MIXED}}},
    "failOnInitError": {"failOnInitError": False, "gfd": {"enabled": True}},
    "compatWithCPUManager": {"compatWithCPUManager": True},
    "compatWithCPUManager off": {"compatWithCPUManager": False},
    **{
        f"deviceListStrategy {value}": {"deviceListStrategy": value}
        for value in ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri", "envvar,cdi-cri")
    },
    "deviceListStrategy as a list": {"deviceListStrategy": ["volume-mounts", "cdi-annotations"]},
    "deviceIDStrategy index": {"deviceIDStrategy": "index"},
    "driver in a container": {
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "nvidiaDevRoot": "/",
        "cdi": {"nvidiaHookPath": "/usr/local/nvidia/toolkit/nvidia-cdi-hook", "featureFlags": "x"},
        "deviceListStrategy": "cdi-cri",
    },
    "fabrics": {"gdrcopyEnabled": True, "gdsEnabled": True, "mofedEnabled": False},
    **{
        f"deviceDiscoveryStrategy {value}": {
            "deviceDiscoveryStrategy": value,
            "gfd": {"enabled": True},
        }
        for value in ("auto", "nvml", "tegra")
    },
    "vfio": {
        "deviceDiscoveryStrategy": "vfio",
        "gfd": {"enabled": True},
        "devicePlugin": {"enabled": False},
    },
    "logFormat": {"logFormat": "json", "config": {"map": {"any": MPS}}, "gfd": {"enabled": True}},
    # Names and image.
    "nameOverride": {"nameOverride": "nvidia-device-plugin"},
    "names of the original chart": {
        "nameOverride": "nvidia-device-plugin",
        "componentSelectors": False,
        "gfd": {"enabled": True},
    },
    "fullnameOverride": {"fullnameOverride": "gpus", "gfd": {"enabled": True}},
    "a long fullnameOverride": {"fullnameOverride": "x" * 63, "gfd": {"enabled": True}},
    "namespaceOverride": {"namespaceOverride": "elsewhere", "gfd": {"enabled": True}},
    "selectorLabelsOverride": {"selectorLabelsOverride": {"app": "gpus"}},
    "image": {
        "image": {"repository": "registry.example/gpus", "tag": "v1", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "secret"}],
    },
    # Pods.
    "updateStrategy": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    },
    "updateStrategy OnDelete": {"updateStrategy": {"type": "OnDelete"}},
    "podAnnotations": {"podAnnotations": {"a": "b", "checksum/config": "mine"}},
    "podSecurityContext": {"podSecurityContext": {"fsGroup": 1, "supplementalGroups": [44]}},
    "securityContext": {
        "securityContext": {"privileged": True},
        "compatWithCPUManager": True,
        "config": {"map": {"any": MPS}},
    },
    "resources": {
        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "10m"}},
        "gfd": {"enabled": True},
    },
    "scheduling": {
        "nodeSelector": {"gpu": "yes"},
        "affinity": None,
        "tolerations": [],
        "priorityClassName": "",
        "runtimeClassName": "nvidia",
    },
    # Components.
    "no device plugin": {"devicePlugin": {"enabled": False}},
    "gfd": {"gfd": {"enabled": True}},
    "gfd alone": {"gfd": {"enabled": True}, "devicePlugin": {"enabled": False}},
    "gfd without nfd": {"gfd": {"enabled": True}, "nfd": {"enabled": False}},
    "gfd with a file": {
        "gfd": {"enabled": True, "useNodeFeatureAPI": False},
        "networkPolicy": {"enabled": True},
    },
    "gfd, options": {
        "gfd": {"enabled": True, "noTimestamp": True, "sleepInterval": "infinite"},
    },
    "gfd, options at the top": {
        "gfd": {"enabled": True, "noTimestamp": True, "sleepInterval": "10s"},
        "noTimestamp": False,
        "sleepInterval": "5m",
    },
    "gfd, unprivileged": {"gfd": {"enabled": True, "securityContext": None}},
    "gfd, unprivileged, MIG": {
        "gfd": {"enabled": True, "securityContext": None},
        "migStrategy": "single",
    },
    "gfd, name": {"gfd": {"enabled": True, "nameOverride": "labels"}},
    "nfd alone": {"nfd": {"enabled": True}},
    "nfd, changed": {
        "gfd": {"enabled": True},
        "nfd": {
            "image": {"tag": "v0.17.4"},
            "imagePullSecrets": [{"name": "secret"}],
            "priorityClassName": "system-cluster-critical",
            "postDeleteCleanup": False,
            "featureGates": {"NodeFeatureGroupAPI": True},
            "master": {"replicaCount": 2, "enableTaints": True, "instance": "x"},
            "worker": {"mountUsrSrc": True, "nodeSelector": {"gpu": "yes"}, "extraArgs": ["-v=1"]},
            "gc": {"enable": False},
        },
    },
    "nfd, accounts that are there": {
        "nfd": {
            "enabled": True,
            "master": {"serviceAccount": {"create": False, "name": "default"}},
            "worker": {"rbac": {"create": False}},
        },
    },
    "no mps": {"mps": {"enabled": False}},
    "mps.root": {"mps": {"root": "/var/lib/mps"}, "config": {"map": {"any": MPS}}},
    "mps without the host's processes": {"mps": {"enableHostPID": False}},
    "mps without a probe": {"mps": {"readinessProbe": None}},
    "host network": {
        "devicePlugin": {"enableHostNetwork": True},
        "gfd": {"enabled": True, "enableHostNetwork": True},
        "mps": {"enableHostNetwork": True},
    },
    "kubelet elsewhere": {"devicePlugin": {"kubeletPluginsPath": "/data/kubelet/device-plugins"}},
    "extraEnv": {
        "devicePlugin": {"extraEnv": [{"name": "DP_DISABLE_HEALTHCHECKS", "value": "94"}]},
        "gfd": {"enabled": True, "extraEnv": [{"name": "GFD_MACHINE_TYPE_FILE", "value": ""}]},
        "mps": {"extraEnv": [{"name": "GPU_NODE_LOG_LEVEL", "value": "debug"}]},
    },
    # Agent.
    "agent": {"agent": {"enabled": True}},
    "agent with labels": {"agent": {"enabled": True}, "gfd": {"enabled": True}},
    "agent with labels in a file": {
        "agent": {"enabled": True},
        "gfd": {"enabled": True, "useNodeFeatureAPI": False, "noTimestamp": True},
        "networkPolicy": {"enabled": True},
    },
    "agent with configurations": {
        "agent": {"enabled": True, "rescanInterval": "10s"},
        "config": {"map": {"default": TIME_SLICING, "mig": MIXED}},
        "networkPolicy": {"enabled": True},
    },
    "agent with a ConfigMap that is there": {
        "agent": {"enabled": True},
        "config": {"name": "mine", "fallbackStrategies": []},
        "gfd": {"enabled": True, "securityContext": None},
    },
    "agent without MPS, unprivileged": {
        "agent": {"enabled": True, "securityContext": {"runAsUser": 0}},
        "mps": {"enabled": False},
        "resources": {"limits": {"memory": "128Mi"}},
    },
    "agent, options": {
        "agent": {
            "enabled": True,
            "extraEnv": [{"name": "GPU_NODE_LOG_LEVEL", "value": "debug"}],
        },
        "devicePlugin": {
            "enableHostNetwork": True,
            "extraEnv": [{"name": "DP_DISABLE_HEALTHCHECKS", "value": "94"}],
        },
        "gfd": {"enabled": True, "extraEnv": [{"name": "GPU_NODE_LOG_LEVEL", "value": "info"}]},
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "deviceDiscoveryStrategy": "nvml",
        "migStrategy": "single",
    },
    "agent, simulated and looked at": {
        "agent": {"enabled": True},
        "gfd": {"enabled": True},
        "simulate": {"node": SIMULATED_NODE},
        "metrics": {
            "enabled": True,
            "ports": {"agent": 9000},
            "serviceMonitor": {"enabled": True},
        },
        "probes": {"enabled": True},
        "networkPolicy": {"enabled": True},
    },
    # Metrics and probes.
    "health reports": {"reportHealth": ["events", "node-condition"]},
    "health reports: events, and metrics": {
        "reportHealth": ["events"],
        "metrics": {"enabled": True},
        "networkPolicy": {"enabled": True},
    },
    "metrics": {"metrics": {"enabled": True}, "gfd": {"enabled": True}},
    "metrics without pages and pods": {
        "metrics": {"enabled": True, "statusPage": False, "podResources": {"enabled": False}},
    },
    "metrics with alerts and dashboard": {
        "metrics": {
            "enabled": True,
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {
                "enabled": True,
                "namespace": "monitoring",
                "labels": {"grafana_dashboard": "yes"},
                "annotations": {"grafana_folder": "GPUs"},
            },
        },
    },
    "metrics, guarded": {
        "metrics": {
            "enabled": True,
            "ports": {"devicePlugin": 9000, "gfd": 9001, "mps": 9002},
            "podResources": {"path": "/data/kubelet/pod-resources"},
            "tls": {"secretName": "certificate"},
            "token": {"secretName": "token", "key": "bearer"},
            "service": {"annotations": {"a": "b"}},
            "serviceMonitor": {
                "enabled": True,
                "interval": "1m",
                "scrapeTimeout": "10s",
                "labels": {"release": "prometheus"},
                "tlsConfig": {"insecureSkipVerify": True},
                "relabelings": [{"targetLabel": "cluster", "replacement": "x"}],
            },
        },
        "probes": {"enabled": True},
        "gfd": {"enabled": True, "namespaceOverride": "labels"},
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [
                {
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": "monitoring"}
                    }
                }
            ],
        },
    },
    "agent, guarded, in the network of the host": {
        "agent": {"enabled": True},
        "devicePlugin": {"enableHostNetwork": True},
        "gfd": {"enabled": True},
        "config": {"map": {"default": TIME_SLICING}},
        "reportHealth": ["events", "node-condition"],
        "metrics": {
            "enabled": True,
            "tls": {"secretName": "certificate"},
            "token": {"secretName": "token"},
        },
        "probes": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "mps": {"enableHostNetwork": True},
    },
    "probes of one kind": {"probes": {"enabled": True, "liveness": None}},
    "probes": {
        "probes": {"enabled": True, "liveness": {"periodSeconds": 60}, "readiness": {}},
        "gfd": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "mps": {"readinessProbe": None},
    },
    # Simulated nodes and the network.
    "simulated": {"simulate": {"profile": "dgx-a100"}, "gfd": {"enabled": True}},
    "simulated, described": {
        "simulate": {"node": SIMULATED_NODE},
        "gfd": {"enabled": True, "namespaceOverride": "labels"},
        "config": {"map": {"any": TIME_SLICING}},
    },
    "network policies": {
        "networkPolicy": {"enabled": True, "apiServerPorts": [6443]},
        "gfd": {"enabled": True},
    },
    "network policies, configurations": {
        "networkPolicy": {"enabled": True},
        "config": {"name": "my-configs"},
    },
    "unknown values": {"legacyDaemonsetAPI": True, "global": {"imageRegistry": "x"}},
    "the default namespace": {"allowDefaultNamespace": True, "namespaceOverride": "default"},
    "everything": {
        "config": {"map": {"default": TIME_SLICING, "mig": MIXED, "mps": MPS}},
        "migStrategy": "single",
        "failOnInitError": True,
        "compatWithCPUManager": True,
        "deviceListStrategy": "envvar",
        "deviceIDStrategy": "uuid",
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "gfd": {"enabled": True, "sleepInterval": "30s"},
        "networkPolicy": {"enabled": True},
        "resources": {"limits": {"memory": "128Mi"}},
        "runtimeClassName": "nvidia",
        "strictValues": True,
    },
}
