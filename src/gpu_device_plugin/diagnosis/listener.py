"""The port for metrics, probes and the status page: what it needs in the pod, and who asks it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.configurations import OFFERING
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.options import Options
from gpu_device_plugin.diagnosis.pods import Container
from gpu_device_plugin.diagnosis.tree import Value
from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.web.address import Address, read_address

TLS_FILES = ("metrics-tls-cert-file", "metrics-tls-key-file")
FILES = (*TLS_FILES, "metrics-token-file")
"""Options that name files, which are read at the start and when they change."""
SOCKET = "pod-resources-socket"
LOOPBACK = ("127.", "::1", "localhost")
"""How the hosts begin that the kubelet does not reach at the address of a pod."""
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def check_listener(options: Options, others: Sequence[Options]) -> Iterator[Finding]:
    """Everything about the port of a container, and about probes that ask where there is none.

    Args:
        options: of the container.
        others: of all containers of ours in the pod, which share its addresses.
    """
    address: Address | None = None
    if _opens_port(options):
        try:
            address = read_address(options.parsed.text("metrics-address"), "--metrics-address")
        except UsageError as error:
            message = error.message.partition(": ")[2]
            yield options.finding(Severity.ERROR, "metrics-address", message, error.hint)
            return
        yield from _check_files(options)
        yield from _check_socket(options)
        yield from _check_neighbours(options, address.port, others)
    yield from _check_probes(options, address)


def _opens_port(options: Options) -> bool:
    parsed = options.parsed
    if parsed.command or (parsed.program is Program.CONFIG_MANAGER and parsed.flag("oneshot")):
        return False
    return bool(parsed.text("metrics-address"))


def _check_files(options: Options) -> Iterator[Finding]:
    """Certificate, key and token: without one of them the program ends at its start."""
    given = [name for name in TLS_FILES if options.parsed.text(name)]
    if len(given) == 1:
        (missing,) = set(TLS_FILES) - set(given)
        message = "is set without its other half"
        yield options.finding(Severity.ERROR, given[0], message, f"set --{missing} too")
    for name in FILES:
        path = options.parsed.text(name)
        if not path:
            continue
        mount = options.container.mount_of(path)
        if mount is None:
            message = f"nothing is mounted where {path} is"
            yield options.finding(Severity.ERROR, name, message, "mount the Secret that holds it")
        elif mount.sub_path:
            message = f"{path} stays as it is when the Secret changes, since it is a subPath"
            yield options.finding(Severity.WARNING, name, message, "mount the whole Secret")


def _check_socket(options: Options) -> Iterator[Finding]:
    """The kubelet's socket, without which nobody learns which pod holds which device."""
    parsed, container = options.parsed, options.container
    path = parsed.text(SOCKET) if parsed.program in OFFERING else ""
    if not path or not {"metrics", "status"} & set(parsed.strings("metrics-endpoints")):
        return
    directory = posixpath.dirname(path)
    mount = container.mount_of(path)
    silence = "or say --pod-resources-socket= (GPU_NODE_POD_RESOURCES_SOCKET) to do without"
    if mount is None:
        message = f"nothing is mounted at {directory}: it is not known which pods hold which GPUs"
        hint = f"mount the hostPath {directory} there, read-only, {silence}"
        yield options.finding(Severity.WARNING, SOCKET, message, hint)
    elif mount.volume is not None and not mount.volume.value.get("hostPath").exists:
        message = f"{directory} is not a directory of the node: the kubelet's socket is not there"
        yield options.finding(Severity.WARNING, SOCKET, message, f"mount a hostPath, {silence}")
    elif mount.path == posixpath.normpath(path):
        message = f"{path} is mounted as a file, and is another one after a restart of the kubelet"
        yield options.finding(Severity.WARNING, SOCKET, message, f"mount {directory}")


def _check_neighbours(options: Options, port: int, others: Sequence[Options]) -> Iterator[Finding]:
    """Another container of the pod with the same port; the later one of the two is told."""
    for other in others:
        if other is options:
            return
        if not port or other.container.is_init or not _opens_port(other):
            continue
        if other.parsed.text("metrics-address").rpartition(":")[2] == str(port):
            message = f"the port {port} is that of the container {other.container.name}, too"
            hint = "containers of a pod share its addresses: give each a port of its own"
            yield options.finding(Severity.ERROR, "metrics-address", message, hint)


def _check_probes(options: Options, address: Address | None) -> Iterator[Finding]:
    """Probes over HTTP of which it is known that nobody can answer."""
    for name in PROBES:
        asked = options.container.value.get(name, "httpGet")
        if asked.exists:
            message, hint = _no_answer(options, asked, address)
            if message:
                text = f"{name}: {message}"
                yield Finding(Severity.ERROR, asked.place, text, hint, options.container.title)


def _no_answer(options: Options, asked: Value, address: Address | None) -> tuple[str, str]:
    """Why a probe cannot be answered, and what would be right; empty if it can."""
    if address is None:
        return (
            "nobody listens in this container",
            "set --metrics-address (GPU_NODE_METRICS_ADDRESS)",
        )
    port = _port_number(options.container, asked.get("port"))
    if port is not None and address.port and port != address.port:
        return f"it asks port {port}, and the program listens at {address.port}", ""
    host = asked.get("host").text
    if address.host.startswith(LOOPBACK) and not host:
        hint = f"listen at :{address.port}, or, with hostNetwork, host: 127.0.0.1 for the probe"
        return f"it asks the address of the pod, and the program listens at {address}", hint
    scheme = "HTTPS" if options.parsed.text("metrics-tls-cert-file") else "HTTP"
    if (asked.get("scheme").text or "HTTP") != scheme:
        return f"the port speaks {scheme}", f"scheme: {scheme}"
    if "probes" not in options.parsed.strings("metrics-endpoints"):
        return "probes are not served", "add probes to --metrics-endpoints"
    return "", ""


def _port_number(container: Container, port: Value) -> int | None:
    """The number of a port that may be given by its name; None if that is not known."""
    if isinstance(port.scalar, int):
        return port.scalar
    for item in container.value.get("ports").items():
        number = item.get("containerPort").scalar
        if item.get("name").text == port.text and isinstance(number, int):
            return number
    return None
