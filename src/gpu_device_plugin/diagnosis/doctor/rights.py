"""Checks of what this process may do, and whether that is enough for the plugin."""

from __future__ import annotations

import re

from gpu_device_plugin.cdi.paths import clean
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked

STATUS = "/proc/self/status"
CAPABILITIES = {"DAC_OVERRIDE": 1, "SYS_CHROOT": 18, "SYS_PTRACE": 19, "SYS_ADMIN": 21}
"""Numbers of those that matter here (linux/capability.h)."""
MONITOR = "/proc/driver/nvidia/capabilities/mig/monitor"
CDI_DIRECTORY = "/var/run/cdi"


def check_rights(host: Host) -> Outcome:
    """Whether user and capabilities are enough for what the options ask for."""
    find = Findings()
    uid = host.edges.uid()
    mask = _capability_mask(host)
    names = [name for name, bit in CAPABILITIES.items() if mask >> bit & 1]
    find.saw(f"uid {uid}, capabilities of interest: {', '.join(names) or 'none'} ({mask:#x})")
    if uid:
        find.warn(
            f"this runs as uid {uid}: sockets, devices and processes of others are not seen",
            "sudo gpu-node doctor, or runAsUser: 0 in the plugin's pod",
        )
    _check_monitor(host, find, has_admin="SYS_ADMIN" in names)
    _check_places(host, find)
    return find.outcome(f"uid {uid}, {', '.join(names) or 'no capabilities of interest'}")


def _capability_mask(host: Host) -> int:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", _own_text(host, STATUS), re.MULTILINE)
    return int(found[1], 16) if found else 0


def _own_text(host: Host, path: str) -> str:
    try:
        return host.own.read(path, 65536).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _check_monitor(host: Host, find: Findings, *, has_admin: bool) -> None:
    """The right to see all MIG devices: SYS_ADMIN, or the driver's own capability."""
    if not any(gpu.mig_current for gpu in host.nvml.gpus) or host.simulated:
        return
    seen = host.exists(MONITOR)
    find.saw(f"{host.files.outer(MONITOR)}: {'there' if seen else 'not seen'}")
    if not has_admin and not seen:
        find.fail(
            "MIG is on, and all MIG devices may not be seen",
            "NVIDIA_MIG_MONITOR_DEVICES=all and the capability SYS_ADMIN for the plugin's "
            "container (Helm: securityContext.capabilities.add={SYS_ADMIN})",
        )


def _check_places(host: Host, find: Findings) -> None:
    """Where CDI specifications are written, if they are wanted."""
    config = host.usable_config()
    if config is None or not config.uses_cdi() or host.simulated:
        return
    outer = host.files.outer(clean(CDI_DIRECTORY))
    if not host.exists(CDI_DIRECTORY):
        find.warn(f"{outer} does not exist; the plugin makes it if it may", f"mkdir -p {outer}")
    elif not host.edges.can_write(host.real(CDI_DIRECTORY)):
        find.fail(
            f"{outer} cannot be written, and --device-list-strategy asks for CDI",
            "mount the host's /var/run/cdi there, not read-only, and run as root",
        )


def check_confinement(host: Host) -> Outcome:
    """What SELinux, AppArmor and a read-only root keep this process from."""
    find = Findings()
    label = _own_text(host, "/proc/self/attr/current").rstrip("\0\n")
    enforce = (host.text("/sys/fs/selinux/enforce") or "").strip()
    find.saw(f"label of this process: {one_line(label) or 'none'}")
    if enforce:
        find.saw(f"SELinux: {'enforcing' if enforce == '1' else 'permissive'}")
    if enforce == "1" and "container_t" in label:
        find.warn(
            f"SELinux is enforcing and this container is {one_line(label)}: sockets of the kubelet "
            "and devices are denied",
            "seLinuxOptions: {type: spc_t} or privileged; on the host: setsebool -P "
            "container_use_devices on; ausearch -m avc -ts recent",
        )
    if label.endswith("(enforce)") and label != "unconfined":
        find.saw("an AppArmor profile is enforced: dmesg | grep -i apparmor shows what it denies")
    try:
        space = host.edges.space("/")
    except OSError as error:
        return not_checked(f"/ cannot be looked at: {error.strerror}", evidence=(*find.evidence,))
    find.saw(f"root file system: {'read-only' if space.is_read_only else 'can be written'}")
    if space.is_read_only and not host.is_container:
        find.warn(
            "the root file system of this machine is read-only: is the disk in order?",
            "dmesg | grep -i -e 'remount' -e 'I/O error'",
        )
    modes = "SELinux enforcing" if enforce == "1" else "no SELinux in force"
    return find.outcome(f"{modes}, {one_line(label) or 'no profile'}")


CHECKS = (
    Check(
        "rights",
        Group.SYSTEM,
        "user, capabilities (SYS_ADMIN for MIG), directories that must be written",
        "troubleshooting.md#pods-restart",
        check_rights,
        seconds=15,
    ),
    Check(
        "confinement",
        Group.SYSTEM,
        "SELinux, AppArmor, read-only root",
        "doctor.md#confinement",
        check_confinement,
    ),
)
