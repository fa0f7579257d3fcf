"""What a kubelet refuses in a registration; version and name as in devicemanager, v1beta1/server.go."""

from __future__ import annotations

from gpu_device_plugin.kubelet import api
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb


def problem_of(request: pb.RegisterRequest) -> str:
    """Why a registration cannot be accepted; empty if it can."""
    if request.version != api.VERSION:
        return f"version {request.version!r} is not supported, {api.VERSION} is"
    domain, slash, name = request.resource_name.partition("/")
    if not (domain and slash and name) or domain.endswith("kubernetes.io"):
        return f"{request.resource_name!r} is not the name of an extended resource"
    if not request.endpoint or "/" in request.endpoint:
        return f"{request.endpoint!r} is not the name of a socket beside the kubelet's"
    return ""
