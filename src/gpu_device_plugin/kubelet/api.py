"""Names and constants of the kubelet's device plugin API (k8s.io/kubelet, v1beta1)."""

from __future__ import annotations

VERSION = "v1beta1"
DEVICE_PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET = f"{DEVICE_PLUGIN_DIR}/kubelet.sock"

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"
