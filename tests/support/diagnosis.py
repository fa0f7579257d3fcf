"""Validates texts in tests, and a pod with everything that its programs need."""

from __future__ import annotations

import textwrap

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.configurations import READERS
from gpu_device_plugin.diagnosis.files import Text
from gpu_device_plugin.diagnosis.findings import Finding
from gpu_device_plugin.diagnosis.validate import Result, validate


def result_of(*texts: str, programs: tuple[Program, ...] = READERS) -> Result:
    """What is found in files ``0.yaml``, ``1.yaml`` and so on."""
    files = [
        Text(f"{number}.yaml", textwrap.dedent(text).encode()) for number, text in enumerate(texts)
    ]
    return validate(files, programs)


def findings_of(*texts: str, programs: tuple[Program, ...] = READERS) -> list[Finding]:
    return list(result_of(*texts, programs=programs).findings)


def lines_of(*texts: str, programs: tuple[Program, ...] = READERS) -> list[str]:
    return [str(finding) for finding in findings_of(*texts, programs=programs)]


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: configs, namespace: gpu}
data:
  default: |
    version: v1
  shared: |
    version: v1
    sharing:
      timeSlicing:
        resources:
          - {name: nvidia.com/gpu, replicas: 4}
---
"""

RBAC = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: account, namespace: gpu}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role}
rules:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: role}
subjects:
  - {kind: ServiceAccount, name: account, namespace: gpu}
---
"""

PLUGIN = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: plugin, namespace: gpu}
spec:
  template:
    spec:
      serviceAccountName: account
      shareProcessNamespace: true
      initContainers:
        - name: init
          image: nvcr.io/nvidia/k8s-device-plugin:v0.19.3
          command: [config-manager]
          env:
            - {name: ONESHOT, value: "true"}
            - {name: SEND_SIGNAL, value: "false"}
            - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
            - {name: CONFIG_FILE_SRCDIR, value: /available-configs}
            - {name: CONFIG_FILE_DST, value: /config/config.yaml}
            - {name: FALLBACK_STRATEGIES, value: "named,single"}
          volumeMounts:
            - {name: available-configs, mountPath: /available-configs}
            - {name: config, mountPath: /config}
      containers:
        - name: sidecar
          image: nvcr.io/nvidia/k8s-device-plugin:v0.19.3
          command: [config-manager]
          env:
            - {name: SEND_SIGNAL, value: "true"}
            - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
            - {name: CONFIG_FILE_SRCDIR, value: /available-configs}
            - {name: CONFIG_FILE_DST, value: /config/config.yaml}
            - {name: FALLBACK_STRATEGIES, value: "named,single"}
          volumeMounts:
            - {name: available-configs, mountPath: /available-configs}
            - {name: config, mountPath: /config}
        - name: nvidia-device-plugin-ctr
          image: nvcr.io/nvidia/k8s-device-plugin:v0.19.3
          command: [nvidia-device-plugin]
          env:
            - {name: CONFIG_FILE, value: /config/config.yaml}
          volumeMounts:
            - {name: device-plugins, mountPath: /var/lib/kubelet/device-plugins}
            - {name: available-configs, mountPath: /available-configs}
            - {name: config, mountPath: /config}
      volumes:
        - name: device-plugins
          hostPath: {path: /var/lib/kubelet/device-plugins}
        - name: available-configs
          configMap: {name: configs}
        - name: config
          emptyDir: {}
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with replacements, each of which has to be possible."""
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    return text
