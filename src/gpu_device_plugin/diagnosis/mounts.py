"""What a program needs to find in its container, and whether the pod mounts it there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.configurations import OFFERING, publishes_labels
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.pods import Container, Mount
from gpu_device_plugin.mps.names import MPS_ROOT

_MPS_HINT = "mount the hostPath that is the plugin's --mps-root, such as /run/nvidia/mps"
CDI_DIRECTORY = "/var/run/cdi"
MOUNT_COMMAND = "mount-shm"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where MPS has it


@dataclass(frozen=True, slots=True)
class Need:
    """A directory of the node that a program needs in its container."""

    path: str
    why: str
    host_path: str = ""
    """Which directory of the node it has to be; empty if any may be."""
    is_written: bool = True
    severity: Severity = Severity.ERROR
    hint: str = ""

    @property
    def cure(self) -> str:
        """What would be right."""
        return self.hint or f"mount the hostPath {self.host_path or self.path} there"


def needs_of(parsed: Parsed, configs: list[Config]) -> Iterator[Need]:
    """The directories that a program needs, whichever of the configurations it gets."""
    match parsed.program:
        case Program.DEVICE_PLUGIN:
            yield from _needs_of_plugin(parsed, configs)
        case Program.AGENT:
            yield from _needs_of_plugin(parsed, configs)
            if publishes_labels(parsed):
                yield from _needs_of_discovery(configs)
        case Program.GPU_FEATURE_DISCOVERY:
            yield from _needs_of_discovery(configs)
        case Program.MPS_CONTROL_DAEMON:
            yield Need(MPS_ROOT, "the plugin and containers meet the daemons there", hint=_MPS_HINT)
            if not parsed.command:
                why = "the daemons and their clients share it"
                yield Need(SHARED_MEMORY, why, hint=f"{_MPS_HINT}, its directory shm")
        case _:
            return


def _needs_of_plugin(parsed: Parsed, configs: list[Config]) -> Iterator[Need]:
    directory = parsed.text("plugin-directory")
    yield Need(directory, "the kubelet looks for the plugin's sockets there")
    socket = posixpath.dirname(parsed.text("kubelet-socket"))
    if socket and posixpath.normpath(socket) != posixpath.normpath(directory):
        yield Need(socket, "the socket of the kubelet is there", is_written=False)
    if any(config.uses_cdi() for config in configs if _has_known_strategies(config)):
        yield Need(CDI_DIRECTORY, "the runtime looks for CDI specifications there")
    mps_roots = [config.flags.mps_root or "" for config in configs if config.uses_mps()]
    for root in dict.fromkeys(mps_roots):
        if root:
            yield Need(MPS_ROOT, "the MPS daemons tell there that they are ready", root)
    for root, where in dict.fromkeys(
        (config.flags.nvidia_driver_root or "/", config.flags.plugin.container_driver_root or "/")
        for config in configs
    ):
        if root != "/" and where != "/":
            yield Need(
                where,
                f"the driver is said to be at {root} on the node",
                root,
                is_written=False,
                severity=Severity.WARNING,
            )


def _has_known_strategies(config: Config) -> bool:
    try:
        return bool(config.device_list_strategies)
    except ValueError:
        return False


def _needs_of_discovery(configs: list[Config]) -> Iterator[Need]:
    for config in configs:
        gfd = config.flags.gfd
        if not config.flags.use_node_feature_api and gfd is not None and gfd.output_file:
            directory = posixpath.dirname(gfd.output_file)
            yield Need(directory, "node feature discovery looks for the file with labels there")


def check_needs(container: Container, parsed: Parsed, configs: list[Config]) -> Iterator[Finding]:
    """Every directory that is missing, is not of the node, or cannot be written."""
    for need in dict.fromkeys(needs_of(parsed, configs)):
        mount = container.mount_of(need.path)
        if mount is None:
            place = container.value.get("volumeMounts").place
            message = f"nothing is mounted at {need.path}: {need.why}"
            yield Finding(need.severity, place, message, need.cure, container.title)
        else:
            yield from _check_mount(container, mount, need)
    if parsed.command == MOUNT_COMMAND:
        yield from _check_propagation(container)
    if parsed.program in OFFERING:
        yield from _check_user(container, parsed.text("plugin-directory"))


def _check_mount(container: Container, mount: Mount, need: Need) -> Iterator[Finding]:
    title = container.title
    volume = mount.volume
    if volume is None:
        return  # `check_volumes` says so
    if not volume.value.get("hostPath").exists:
        message = f"{need.path} is not a directory of the node: {need.why}"
        yield Finding(need.severity, volume.value.place, message, need.cure, title)
    elif need.is_written and mount.is_read_only:
        message = f"{need.path} is mounted read-only, and is written to"
        place = mount.value.get("readOnly").place
        yield Finding(Severity.ERROR, place, message, "leave readOnly out", title)
    elif need.host_path and not _is_same(mount, need):
        message = f"{need.path} is {volume.host_path} on the node, not {need.host_path}: {need.why}"
        place = volume.value.get("hostPath", "path").place
        yield Finding(need.severity, place, message, need.cure, title)


def _is_same(mount: Mount, need: Need) -> bool:
    assert mount.volume is not None  # noqa: S101 - its callers have looked
    found = posixpath.normpath(posixpath.join(mount.volume.host_path, mount.inside(need.path)))
    return found == posixpath.normpath(need.host_path)


def _check_propagation(container: Container) -> Iterator[Finding]:
    mount = container.mount_of(MPS_ROOT)
    if mount is None or mount.value.get("mountPropagation").text == "Bidirectional":
        return
    message = f"what is mounted below {MPS_ROOT} does not reach the node"
    hint = "mountPropagation: Bidirectional"
    yield Finding(Severity.ERROR, mount.value.place, message, hint, container.title)


def _check_user(container: Container, directory: str) -> Iterator[Finding]:
    user = container.security("runAsUser")
    if isinstance(user.scalar, int) and user.scalar:
        message = f"user {user.scalar} cannot write to {directory}, which belongs to root"
        yield Finding(Severity.ERROR, user.place, message, "runAsUser: 0", container.title)


def check_volumes(container: Container) -> Iterator[Finding]:
    """Mounts of volumes that the pod does not have."""
    for mount in container.mounts():
        if mount.volume is None:
            name = mount.value.get("name")
            message = f"the pod has no volume {name.text!r}"
            place = name.place if name.exists else mount.value.place
            names = ", ".join(container.pod.volumes())
            hint = f"there are {names}" if names else ""
            yield Finding(Severity.ERROR, place, message, hint, container.title)
