"""Checks of the kubelet on this node and of the device plugins beside its socket."""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict

from gpu_device_plugin.cdi.paths import base, clean, join, parent
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.diagnosis.doctor.processes import plugin_processes
from gpu_device_plugin.errors import UserError

OTHER_ROOTS = (
    "/var/lib/kubelet/device-plugins",
    "/var/snap/microk8s/common/var/lib/kubelet/device-plugins",
    "/var/lib/k0s/kubelet/device-plugins",
    "/var/data/kubelet/device-plugins",
)
"""Where distributions have the kubelet's directory."""
DENIED = os.strerror(errno.EACCES)
AS_ROOT = "run it as root: sudo gpu-node doctor"
PREFIX = "nvidia"
"""What the names of sockets begin with that are plugins for NVIDIA GPUs."""


def _socket(host: Host) -> str:
    return clean(host.parsed.text("kubelet-socket"))


def check_socket(host: Host) -> Outcome:
    """Whether a kubelet takes registrations, and its directory can be written."""
    if not host.parsed.text("kubelet-socket"):
        return not_checked("--kubelet-socket is empty: nothing is registered")
    find = Findings()
    socket = _socket(host)
    outer, directory = host.files.outer(socket), parent(socket)
    if not host.exists(directory):
        return _without_directory(host, directory)
    info = host.files.stat(socket)
    find.saw(f"{outer}: {'not there' if info is None else stat.filemode(info.st_mode)}")
    if info is None:
        find.fail(
            f"there is no kubelet socket {outer}",
            "systemctl status kubelet; journalctl -u kubelet -n 50",
            "in the plugin's pod: is the host's directory mounted there? "
            "Helm: devicePlugin.kubeletPluginsPath",
        )
    elif not stat.S_ISSOCK(info.st_mode):
        find.fail(f"{outer} is no socket", f"rm {outer}; systemctl restart kubelet")
    else:
        problem = host.edges.connect(host.real(socket))
        find.saw(f"connecting to {outer}: {problem or 'answered'}")
        if problem == DENIED:
            find.gap(f"{outer} may not be connected to by uid {host.edges.uid()}", AS_ROOT)
        elif problem:
            find.fail(
                f"no kubelet listens at {outer}: {problem}",
                "systemctl restart kubelet; journalctl -u kubelet -n 50",
            )
    _check_directory(host, find)
    return find.outcome(f"a kubelet listens at {outer}")


def _check_directory(host: Host, find: Findings) -> None:
    directory = clean(host.parsed.text("plugin-directory"))
    outer = host.files.outer(directory)
    if not host.exists(directory):
        find.fail(
            f"the directory for the plugin's sockets, {outer}, does not exist",
            "mount the kubelet's device-plugins directory there, or set --plugin-directory "
            "(GPU_NODE_PLUGIN_DIR)",
        )
    elif not host.edges.can_write(host.real(directory)):
        find.fail(
            f"{outer} cannot be written by uid {host.edges.uid()}",
            "run as root (runAsUser: 0), and do not mount the directory read-only",
        )
    else:
        find.saw(f"{outer}: can be written by uid {host.edges.uid()}")


def _without_directory(host: Host, directory: str) -> Outcome:
    others = [path for path in OTHER_ROOTS if path != directory and host.exists(path)]
    outer = host.files.outer(directory)
    if not others:
        return not_checked(
            f"no kubelet is to be seen: {outer} does not exist",
            *([AS_ROOT] if host.edges.uid() else []),
            "if the kubelet has another root: --kubelet-socket=ROOT/device-plugins/kubelet.sock",
        )
    find = Findings()
    find.fail(
        f"{outer} does not exist, but {host.files.outer(others[0])} does",
        f"--kubelet-socket={others[0]}/kubelet.sock --plugin-directory={others[0]} "
        f"(Helm: devicePlugin.kubeletPluginsPath={others[0]})",
    )
    return find.outcome("")


def check_plugins(host: Host) -> Outcome:
    """Whether the plugins for NVIDIA GPUs beside the kubelet's socket answer."""
    find = Findings()
    directory = clean(host.parsed.text("plugin-directory"))
    outer = host.files.outer(directory)
    if not host.exists(directory):
        return not_checked(f"{outer} does not exist")
    own = base(_socket(host))
    names = [
        name
        for name in host.files.listdir(directory)
        if name != own and _is_socket(host, join(directory, name))
    ]
    find.saw(f"{outer}: {', '.join(names) or 'no sockets of plugins'}")
    ours = [name for name in names if name.startswith(PREFIX)]
    expected = _expected(host)
    if expected is not None:
        find.saw(f"expected by the plugin's options: {', '.join(sorted(expected)) or 'none'}")
    for name in ours:
        problem = host.edges.ask_plugin(host.real(join(directory, name)))
        find.saw(f"{name}: {problem or 'answers GetDevicePluginOptions'}")
        if problem == DENIED:
            find.gap(f"{outer}/{name} may not be connected to", AS_ROOT)
        elif problem:
            find.fail(
                f"{outer}/{name}: {one_line(problem)}",
                "does the plugin's pod run? kubectl get pods -A -o wide | grep device-plugin; a "
                f"socket that nobody serves any more is removed by: rm {outer}/{name}",
            )
        elif expected is not None and name not in expected:
            find.warn(
                f"{outer}/{name} is served, and the plugin with these options would not: "
                "another plugin, or another configuration",
                "kubectl get daemonset -A | grep -i -e device-plugin -e gpu",
            )
    if not ours:
        _tell_none(host, find, outer, expected)
    return find.outcome(f"{len(ours)} for NVIDIA GPUs, all of them answer" if ours else "none")


def _tell_none(host: Host, find: Findings, outer: str, expected: set[str] | None) -> None:
    """That no plugin has a socket, which is right where there is nothing to offer."""
    if not host.exists(_socket(host)):
        find.gap("no plugin runs here, and no kubelet")
    elif expected or (expected is None and host.nvml.gpus):
        find.fail(
            f"no plugin for NVIDIA GPUs has a socket in {outer}",
            "kubectl get pods -A -o wide | grep device-plugin, and its log",
        )


def _is_socket(host: Host, path: str) -> bool:
    info = host.files.stat(path)
    return info is not None and stat.S_ISSOCK(info.st_mode)


def _expected(host: Host) -> set[str] | None:
    """Names of the sockets that the plugin would make; None if that cannot be told."""
    if not may_plan(host):
        return None
    try:
        return {resource.socket_name for resource in host.plan.resources}
    except UserError:
        return None


def may_plan(host: Host) -> bool:
    """Whether the plan can be made here: the driver answers, and is not that of another root."""
    return bool(host.simulated) or (host.host_root == "/" and not host.nvml.problem)


def check_rivals(host: Host) -> Outcome:
    """Whether two processes serve one resource, so that one of them takes it from the other."""
    find = Findings()
    found = list(plugin_processes(host))
    serving = defaultdict[str, list[int]](list)
    for process in found:
        sockets = sorted(set(process.sockets))
        find.saw(f"process {process.pid}: {one_line(process.command)}: {', '.join(sockets) or '?'}")
        for name in sockets:
            serving[name].append(process.pid)
    for name, numbers in serving.items():
        if len(numbers) > 1:
            both = " and ".join(map(str, numbers))
            find.fail(
                f"processes {both} both serve {name}: the kubelet asks the one that registered last",
                "kubectl get daemonset -A | grep device-plugin: delete one of them; which pod a "
                f"process belongs to: cat /proc/{numbers[0]}/cgroup",
            )
    if not found:
        return not_checked(
            "no device plugin process is to be seen from here",
            "on the host as root, or in a pod with hostPID: true",
        )
    return find.outcome(f"{len(found)} plugin process{'' if len(found) == 1 else 'es'}, no rivals")


def check_pod_resources(host: Host) -> Outcome:
    """Whether the kubelet's socket for pod resources is there."""
    path = host.parsed.text("pod-resources-socket")
    if not path:
        return not_checked("--pod-resources-socket is empty")
    find = Findings()
    outer = host.files.outer(clean(path))
    info = host.files.stat(clean(path))
    if info is None:
        is_listening = bool(host.parsed.text("metrics-address"))
        text = f"there is no {outer}: nothing is told of who holds which GPU"
        step = "mount /var/lib/kubelet/pod-resources into the pod, or set --pod-resources-socket"
        if not is_listening:
            return not_checked(text, step)
        find.warn(text, step)
        return find.outcome("")
    problem = host.edges.connect(host.real(path))
    find.saw(f"connecting to {outer}: {problem or 'answered'}")
    if problem:
        find.warn(f"{outer}: {problem}", "systemctl restart kubelet; the mount may be an old one")
    return find.outcome(f"a kubelet listens at {outer}")


CHECKS = (
    Check(
        "kubelet-socket",
        Group.KUBELET,
        "the kubelet takes registrations, and its directory can be written",
        "troubleshooting.md#pods-run-but-no-gpus-are-offered",
        check_socket,
    ),
    Check(
        "plugin-sockets",
        Group.KUBELET,
        "the plugin's sockets are there and answer; none is stale or somebody else's",
        "troubleshooting.md#pods-run-but-no-gpus-are-offered",
        check_plugins,
        seconds=30,
    ),
    Check(
        "plugin-processes",
        Group.KUBELET,
        "no two processes serve one resource",
        "operations.md#troubleshooting-by-symptom",
        check_rivals,
    ),
    Check(
        "pod-resources",
        Group.KUBELET,
        "the kubelet tells which container holds which device",
        "doctor.md#pod-resources",
        check_pod_resources,
    ),
)
