"""Checks of the container runtime: is there a way by which GPUs get into containers."""

from __future__ import annotations

import os
import re
import stat

from gpu_device_plugin.cdi.paths import join
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.diagnosis.doctor.runtime_files import (
    RuntimeConfig,
    find_runtimes,
    read_toml,
)

PROGRAMS = ("nvidia-container-runtime", "nvidia-container-cli", "nvidia-ctk", "nvidia-cdi-hook")
PROGRAM_DIRECTORIES = (
    "/usr/bin",
    "/usr/local/bin",
    "/usr/local/nvidia/toolkit",
    "/opt/nvidia/toolkit",
    "/run/nvidia/toolkit",
)
"""Of packages, and of the GPU operator's toolkit container."""
TOOLKIT_CONFIGS = (
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
)
OLD_HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"
"""By which CRI-O needs no runtime of NVIDIA's."""
UNSEEN = (
    "run it on the host as root, or in a debug pod: kubectl debug node/NODE -it "
    "--profile=sysadmin --image=IMAGE -- gpu-node doctor --host-root=/host"
)
CDI_ONLY = {"cdi-cri", "cdi-annotations"}


def strategies(host: Host) -> tuple[str, ...]:
    """How the plugin tells runtimes of devices."""
    config = host.usable_config()
    given = None if config is None else config.flags.plugin.device_list_strategy
    return tuple(str(name) for name in given or ("envvar",))


def check_runtime(host: Host) -> Outcome:
    """Whether a runtime is configured as the plugin's strategies need it."""
    find = Findings()
    runtimes = list(find_runtimes(host))
    if not runtimes and not host.has_host_files:
        return not_checked("the host's files cannot be seen from this container", UNSEEN)
    if not runtimes:
        return not_checked("neither containerd nor CRI-O nor Docker has a configuration file here")
    wanted = strategies(host)
    find.saw(f"--device-list-strategy={','.join(wanted)}")
    for runtime in runtimes:
        _check_one(host, runtime, wanted, find)
    names = ", ".join(runtime.kind for runtime in runtimes)
    return find.outcome(f"{names}, fit for {', '.join(wanted)}")


def _check_one(host: Host, runtime: RuntimeConfig, wanted: tuple[str, ...], find: Findings) -> None:
    files = ", ".join(runtime.files)
    if runtime.problem:
        find.fail(f"{runtime.kind}: {one_line(runtime.problem)}", f"correct {runtime.files[0]}")
        return
    find.saw(
        f"{runtime.kind} ({files}): runtimes {', '.join(runtime.handlers) or 'none'}; default "
        f"{runtime.default or 'not set'}; CDI {'on' if runtime.cdi else 'off'}"
    )
    if any(name not in CDI_ONLY for name in wanted):
        _check_nvidia_runtime(host, runtime, find)
    if not any(name in CDI_ONLY for name in wanted):
        return
    directories = runtime.cdi_directories
    if directories and not {"/var/run/cdi", "/run/cdi"} & set(directories):
        find.fail(
            f"{runtime.kind} looks for CDI specifications in {', '.join(directories)}, and the "
            "plugin writes to /var/run/cdi",
            f"add /var/run/cdi to cdi_spec_dirs in {runtime.files[0]}, then systemctl restart "
            f"{_tool_name(runtime)}",
        )
    if runtime.cdi is False:
        find.fail(
            f"{runtime.kind}: CDI is off, and --device-list-strategy is {','.join(wanted)}",
            f"nvidia-ctk runtime configure --runtime={_tool_name(runtime)} --enable-cdi, then "
            f"systemctl restart {_tool_name(runtime)}",
        )


def _check_nvidia_runtime(host: Host, runtime: RuntimeConfig, find: Findings) -> None:
    name = _tool_name(runtime)
    if not runtime.nvidia and runtime.kind == "CRI-O" and host.exists(OLD_HOOK):
        find.saw(f"{host.files.outer(OLD_HOOK)} gives GPUs to containers")
    elif not runtime.nvidia:
        find.fail(
            f"{runtime.kind} has no runtime of NVIDIA's: containers get no GPU",
            f"install the NVIDIA Container Toolkit, then: nvidia-ctk runtime configure "
            f"--runtime={name}; systemctl restart {name}",
            "or without the toolkit: --device-list-strategy=cdi-cri (DEVICE_LIST_STRATEGY)",
        )
    elif runtime.default not in runtime.nvidia:
        find.warn(
            f"{runtime.kind}: the runtime {runtime.nvidia[0]} is there, the default is "
            f"{runtime.default or 'not set'}: only pods with a RuntimeClass get GPUs",
            f"runtimeClassName: {runtime.nvidia[0]} for the plugin and for pods with GPUs, or: "
            f"nvidia-ctk runtime configure --runtime={name} --set-as-default; "
            f"systemctl restart {name}",
        )


def _tool_name(runtime: RuntimeConfig) -> str:
    """As ``nvidia-ctk runtime configure`` and systemd call it."""
    return {"CRI-O": "crio"}.get(runtime.kind, runtime.kind.lower())


def check_toolkit(host: Host) -> Outcome:
    """Whether the NVIDIA Container Toolkit is there, and told what the strategies need."""
    if not host.has_host_files:
        return not_checked("the host's files cannot be seen from this container", UNSEEN)
    find = Findings()
    found = {
        name: join(directory, name)
        for name in PROGRAMS
        for directory in reversed(PROGRAM_DIRECTORIES)
        if _is_program(host, join(directory, name))
    }
    for name in PROGRAMS:
        find.saw(f"{name}: {host.files.outer(found[name]) if name in found else 'not found'}")
    wanted = strategies(host)
    by_runtime = [name for name in wanted if name not in CDI_ONLY]
    if not found and not any(True for _ in find_runtimes(host)):
        return not_checked("neither a container runtime nor the NVIDIA Container Toolkit is here")
    install = "install the package nvidia-container-toolkit, or the GPU operator's toolkit"
    if by_runtime and PROGRAMS[0] not in found:
        find.fail(f"{PROGRAMS[0]} is in none of {', '.join(PROGRAM_DIRECTORIES)}", install)
    _check_hook(host, find, wanted)
    _check_toolkit_config(host, find, by_runtime)
    return find.outcome(f"{len(found)} of {len(PROGRAMS)} programs found")


def _check_hook(host: Host, find: Findings, wanted: tuple[str, ...]) -> None:
    config = host.usable_config()
    if config is None or not any(name in CDI_ONLY for name in wanted):
        return
    hook = config.flags.plugin.nvidia_ctk_path or ""
    if hook and "all" not in host.parsed.strings("cdi-disable-hooks"):
        find.saw(f"--nvidia-cdi-hook-path={hook}")
        if not _is_program(host, hook):
            find.fail(
                f"{hook}, which CDI specifications name as their hook, is not on the host",
                "--nvidia-cdi-hook-path (NVIDIA_CDI_HOOK_PATH) to where nvidia-cdi-hook or "
                "nvidia-ctk is, or --cdi-disable-hooks=all",
            )


def _is_program(host: Host, path: str) -> bool:
    info = host.files.stat(path) if path.startswith("/") else None
    return info is not None and stat.S_ISREG(info.st_mode) and bool(info.st_mode & 0o111)


def _check_toolkit_config(host: Host, find: Findings, by_runtime: list[str]) -> None:
    path = next((path for path in TOOLKIT_CONFIGS if host.exists(path)), "")
    if not path:
        return
    where = host.files.outer(path)
    try:
        config = read_toml(host, path)
    except ValueError as error:
        find.fail(f"{one_line(str(error))}", f"correct {where}")
        return
    runtime = config.get("nvidia-container-runtime")
    mode = runtime.get("mode", "auto") if isinstance(runtime, dict) else "auto"
    mounts = bool(config.get("accept-nvidia-visible-devices-as-volume-mounts", False))
    variable = bool(config.get("accept-nvidia-visible-devices-envvar-when-unprivileged", True))
    find.saw(f"{where}: mode {mode}, by mounts {mounts}, by variable without privileges {variable}")
    if "volume-mounts" in by_runtime and not mounts:
        find.fail(
            "--device-list-strategy has volume-mounts, and the toolkit does not accept them",
            f"accept-nvidia-visible-devices-as-volume-mounts = true in {where}",
        )
    if by_runtime == ["envvar"] and not variable:
        find.fail(
            "--device-list-strategy=envvar, and the toolkit ignores the variable for containers "
            "without privileges",
            f"accept-nvidia-visible-devices-envvar-when-unprivileged = true in {where}, or "
            "--device-list-strategy=volume-mounts with the setting that it needs",
        )


def check_cgroups(host: Host) -> Outcome:
    """Whether containers would lose their GPUs when systemd reads its units anew."""
    find = Findings()
    is_v2 = host.exists("/sys/fs/cgroup/cgroup.controllers")
    find.saw(f"{host.files.outer('/sys/fs/cgroup')}: version {2 if is_v2 else 1}")
    runtimes = [r for r in find_runtimes(host) if not r.problem]
    if not runtimes:
        return not_checked("the runtime's configuration cannot be seen from here", UNSEEN)
    managed = [r.kind for r in runtimes if r.systemd_cgroups]
    find.saw(f"cgroups managed by systemd: {', '.join(managed) or 'by no runtime'}")
    config = host.usable_config()
    passes = config is not None and bool(config.flags.plugin.pass_device_specs)
    by_cdi = all(name in CDI_ONLY for name in strategies(host))
    if not managed or by_cdi or passes:
        why = "CDI names the devices" if by_cdi else "the kubelet knows the devices"
        return find.outcome(
            why if managed and (by_cdi or passes) else "systemd does not manage them"
        )
    missing = [path for path in _gpu_nodes(host) if not _has_link(host, path)]
    if missing:
        find.warn(
            f"systemctl daemon-reload takes the GPU from running containers: systemd manages the "
            f"cgroups and /dev/char has no link for {', '.join(missing[:3])}",
            "nvidia-ctk system create-dev-char-symlinks --create-all at each boot",
            "or --pass-device-specs (PASS_DEVICE_SPECS; Helm: compatWithCPUManager=true), or "
            "--device-list-strategy=cdi-cri",
        )
    return find.outcome("systemd manages them, and /dev/char has a link for every device node")


def _gpu_nodes(host: Host) -> list[str]:
    names = host.files.listdir("/dev")
    return [f"/dev/{n}" for n in names if re.fullmatch(r"nvidia(\d+|ctl|-uvm|-uvm-tools)", n)]


def _has_link(host: Host, path: str) -> bool:
    info = host.files.stat(path)
    if info is None or not stat.S_ISCHR(info.st_mode):
        return True
    number = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
    return host.files.lstat(f"/dev/char/{number}") is not None


CHECKS = (
    Check(
        "runtime-config",
        Group.RUNTIME,
        "containerd, CRI-O, Docker: NVIDIA's runtime or CDI, as the plugin's strategy needs it",
        "operations.md#troubleshooting-by-symptom",
        check_runtime,
        real=True,
    ),
    Check(
        "toolkit",
        Group.RUNTIME,
        "NVIDIA Container Toolkit: programs, config.toml, hook of CDI specifications",
        "operations.md#troubleshooting-by-symptom",
        check_toolkit,
        real=True,
    ),
    Check(
        "cgroups",
        Group.RUNTIME,
        "containers keep their GPUs over systemctl daemon-reload",
        "doctor.md#cgroups",
        check_cgroups,
        real=True,
    ),
)
