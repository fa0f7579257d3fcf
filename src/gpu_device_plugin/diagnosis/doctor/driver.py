"""Checks of the driver's installation: hardware, libraries, kernel module, device nodes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from gpu_device_plugin.cdi.paths import join
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.diagnosis.doctor.pci import describe_hardware, needs_driver
from gpu_device_plugin.hardware.roots import LIBRARY_DIRECTORIES

LIBRARIES = ("libnvidia-ml.so", "libcuda.so")
"""The two without which nothing works; each has the driver's version in its name."""
INJECTED = "/run/nvidia/driver"
"""Where the GPU operator's driver container shows its files on the host."""
MODULE_VERSION = "/proc/driver/nvidia/version"
MODULES = "/proc/modules"
CONTROL_NODES = ("nvidiactl", "nvidia-uvm")
INSTALL = (
    "install NVIDIA's driver on the node (or the GPU operator's driver container), then: nvidia-smi"
)
RUNTIME_CLASS = (
    "in the plugin's pod: runtimeClassName: nvidia (Helm: runtimeClassName=nvidia), or make the "
    "NVIDIA runtime the default, or mount the driver and set --driver-root-ctr-path"
)

RELOAD_MODULE = (
    "reboot the node, or unload and load the module: modprobe -r nvidia_uvm nvidia_drm "
    "nvidia_modeset nvidia && modprobe nvidia"
)

_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
_MODULE = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s")


def check_hardware(host: Host) -> Outcome:
    """Which NVIDIA GPUs the machine has, driver or not."""
    return describe_hardware(host)


def check_libraries(host: Host) -> Outcome:
    """Where the driver's libraries are, and whether they are of one version."""
    find = Findings()
    root = host.driver_root
    versions = set[str]()
    paths = list(_library_files(host, root))
    for path, version in paths:
        find.saw(f"{host.files.outer(path)}{f', version {version}' if version else ''}")
        versions |= {version} if version else set()
    missing = [
        name
        for name in LIBRARIES
        if not any(path.rpartition("/")[2].startswith(name) for path, _ in paths)
    ]
    if not paths and host.nvml.library and not host.nvml.load_error:
        find.saw(f"the dynamic loader finds {host.nvml.library}")
        return find.outcome(f"the dynamic loader finds the driver {host.nvml.driver_version}")
    if not paths:
        return _without_libraries(host, root)
    if missing:
        find.warn(
            f"{' and '.join(missing)} is missing below {host.files.outer(root)}",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility for the container"
            if host.is_container
            else INSTALL,
        )
    if len(versions) > 1:
        find.fail(
            f"libraries of several driver versions are mixed: {', '.join(sorted(versions))}",
            "remove what is left of the old driver (dpkg -l 'libnvidia*', rpm -qa '*nvidia*'), "
            "then: ldconfig",
        )
    module = module_version(host)
    if module and len(versions) == 1 and module not in versions:
        find.fail(
            f"the libraries are {min(versions)}, the loaded kernel module is {module}",
            RELOAD_MODULE,
        )
    where = host.files.outer(root)
    return find.outcome(f"driver {', '.join(sorted(versions)) or 'of unknown version'} in {where}")


def _library_files(host: Host, root: str) -> Iterator[tuple[str, str]]:
    """Each library file without those that are links to others, and its version."""
    seen = set[str]()
    for directory in LIBRARY_DIRECTORIES:
        folder = join(root, directory)
        for name in host.files.listdir(folder):
            if not name.startswith(tuple(f"{library}." for library in LIBRARIES)):
                continue
            found = host.files.real(join(folder, name))
            if found is not None and found.path not in seen:
                seen.add(found.path)
                version = _VERSION.search(found.path)
                yield found.path, version[1] if version else ""


def _without_libraries(host: Host, root: str) -> Outcome:
    find = Findings()
    where = host.files.outer(root)
    names = ", ".join(LIBRARY_DIRECTORIES)
    find.saw(f"no {' and no '.join(LIBRARIES)} below {where} in {names}")
    if not needs_driver(host):
        reason = "no driver libraries, and no sign of an NVIDIA GPU on this machine"
        return not_checked(reason, evidence=tuple(find.evidence))
    if root == "/" and host.exists(join(INJECTED, "usr")):
        find.fail(
            f"no driver libraries below {where}, but {INJECTED} holds a driver",
            f"--driver-root={INJECTED} (NVIDIA_DRIVER_ROOT; Helm: nvidiaDriverRoot={INJECTED})",
        )
    else:
        find.fail(
            f"{LIBRARIES[0]} is nowhere below {where}",
            RUNTIME_CLASS if host.is_container and host.host_root == "/" else INSTALL,
        )
    return find.outcome("")


def module_version(host: Host) -> str:
    """The version of the kernel module that is loaded; empty if none is."""
    found = _MODULE.search(host.text(MODULE_VERSION) or "")
    if found:
        return found[1]
    return (host.text("/sys/module/nvidia/version") or "").strip()


def check_module(host: Host) -> Outcome:
    """Whether NVIDIA's kernel module is loaded, and nothing in its place."""
    find = Findings()
    version = module_version(host)
    text = host.text(MODULE_VERSION)
    where = host.files.outer(MODULE_VERSION)
    find.saw(f"{where}: {one_line(text.splitlines()[0]) if text else 'cannot be read'}")
    loaded = {line.split(" ", 1)[0] for line in (host.text(MODULES) or "").splitlines()}
    names = sorted(name for name in loaded if name.startswith("nvidia") or name == "nouveau")
    find.saw(f"{host.files.outer(MODULES)}: {', '.join(names) or 'none of nvidia*, nouveau'}")
    if "nouveau" in loaded:
        find.fail(
            "the module nouveau is loaded and holds the GPUs",
            "echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf; update-initramfs -u "
            "(or dracut --force); reboot",
        )
    elif not version and not needs_driver(host):
        reason = "no NVIDIA module, and no sign of an NVIDIA GPU on this machine"
        return not_checked(reason, evidence=tuple(find.evidence))
    elif not version:
        find.fail("NVIDIA's kernel module is not loaded", "modprobe nvidia; dmesg | grep -i nvrm")
    elif names and "nvidia_uvm" not in loaded:
        find.warn(
            "the module nvidia_uvm is not loaded: CUDA programs cannot start",
            "modprobe nvidia-uvm, or: nvidia-modprobe -u -c=0",
        )
    return find.outcome(f"nvidia {version}")


def check_nodes(host: Host) -> Outcome:
    """Whether the device nodes are there, and who may use them."""
    find = Findings()
    nodes = dict(_nodes(host))
    for path, info in nodes.items():
        number = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
        mode = stat.filemode(info.st_mode)
        find.saw(f"{host.files.outer(path)} {number} {mode} {info.st_uid}:{info.st_gid}")
    gpus = [path for path in nodes if re.fullmatch(r".*/nvidia\d+", path)]
    if not nodes and not needs_driver(host):
        return not_checked("no device nodes, and no sign of an NVIDIA GPU on this machine")
    make = "nvidia-modprobe -u -c=0 (or nvidia-smi, which makes them) on the host"
    if not gpus:
        find.fail(
            "there is no device node /dev/nvidiaN",
            RUNTIME_CLASS if host.is_container and host.host_root == "/" else make,
        )
    for name in CONTROL_NODES:
        if not any(path.endswith(f"/{name}") for path in nodes):
            find.fail(f"/dev/{name} is missing", make)
    for path, info in nodes.items():
        if not stat.S_ISCHR(info.st_mode):
            find.fail(f"{host.files.outer(path)} is no device node", f"rm it, then: {make}")
        elif info.st_mode & 0o006 != 0o006 and "/nvidia-caps" not in path:
            find.warn(
                f"{host.files.outer(path)} may not be used by everybody "
                f"({stat.filemode(info.st_mode)}): containers without root cannot use the GPU",
                "NVreg_DeviceFileMode=0666 for the module nvidia in /etc/modprobe.d, then reload it",
            )
    return find.outcome(f"{len(gpus)} of GPUs, and {len(nodes) - len(gpus)} others")


def _nodes(host: Host) -> Iterator[tuple[str, os.stat_result]]:
    for directory in dict.fromkeys((join(host.driver_root, "dev"), "/dev")):
        found = False
        for folder in (directory, join(directory, "nvidia-caps")):
            for name in host.files.listdir(folder):
                info = host.files.stat(join(folder, name))
                if (
                    name.startswith("nvidia")
                    and info is not None
                    and not stat.S_ISDIR(info.st_mode)
                ):
                    found = True
                    yield join(folder, name), info
        if found:
            return


CHECKS = (
    Check(
        "hardware",
        Group.DRIVER,
        "NVIDIA GPUs on the PCI bus, and which kernel driver has them",
        "troubleshooting.md#no-pods",
        check_hardware,
        real=True,
    ),
    Check(
        "driver-files",
        Group.DRIVER,
        "the driver's libraries below the driver root: there, and of one version",
        "troubleshooting.md#pods-restart",
        check_libraries,
        real=True,
        seconds=20,
    ),
    Check(
        "kernel-module",
        Group.DRIVER,
        "NVIDIA's kernel module is loaded, nouveau is not",
        "operations.md#driver-upgrades",
        check_module,
        real=True,
    ),
    Check(
        "device-nodes",
        Group.DRIVER,
        "/dev/nvidia*: there, device nodes, usable by everybody",
        "cdi.md#troubleshooting",
        check_nodes,
        real=True,
    ),
)
