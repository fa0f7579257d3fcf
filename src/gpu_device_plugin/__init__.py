"""NVIDIA's Kubernetes GPU node stack in Python, drop-in for k8s-device-plugin."""

__version__ = "0.19.3"
