"""Checks of the MPS daemons, as far as they are seen from here."""

from __future__ import annotations

import re

from gpu_device_plugin.cdi.paths import clean, join
from gpu_device_plugin.config.text import count, one_line
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.mps.lock import lock_holder
from gpu_device_plugin.mps.names import CONTROL_TOOL, MPS_ROOT, DaemonFiles, find_traces

ON_HOST = "/run/nvidia/mps"
"""The chart's default of ``mps.root``."""
EXCLUSIVE = 3
"""NVML's compute mode EXCLUSIVE_PROCESS, which mps-control-daemon sets."""
LITTLE_SHM = 64 * 1024 * 1024
MOST_SERVERS = 8
"""Servers that are asked for their clients."""
DEPLOY = (
    "mps-control-daemon must run on this node: kubectl get pods -A -o wide | grep mps; the chart "
    "deploys it to nodes with the label nvidia.com/mps.capable=true"
)
MPS_SECONDS = 30.0


def mps_root(host: Host) -> str:
    """The daemons' directory: in containers as it is mounted there, else as on the host."""
    given = host.parsed.text("mps-root")
    candidates = [MPS_ROOT] if host.host_root == "/" else []
    candidates += [given] if given else []
    candidates.append(ON_HOST)
    return next((clean(path) for path in candidates if host.exists(path)), "")


def _unused(host: Host) -> Outcome | None:
    """That MPS is no concern here; None if it is."""
    config = host.usable_config()
    if config is None:
        return not_checked("the configuration cannot be used", "see the check config")
    if not config.uses_mps():
        return not_checked("nothing is shared through MPS")
    return None


def check_daemons(host: Host) -> Outcome:
    """Whether a daemon runs for each resource that is shared, and answers."""
    unused = _unused(host)
    if unused is not None:
        return unused
    find = Findings()
    root = mps_root(host)
    if not root:
        find.fail(f"there is no directory {MPS_ROOT} (on the host {ON_HOST})", DEPLOY)
        return find.outcome("")
    outer = host.files.outer(root)
    is_ready = host.exists(join(root, ".ready"))
    find.saw(f"{outer}/.ready: {'there' if is_ready else 'not there'}")
    traces = list(find_traces(host.real(root)))
    if not traces:
        find.fail(f"{outer} holds no files of any daemon", DEPLOY)
    for files in traces:
        _check_daemon(host, files, find)
    if traces and not is_ready:
        find.fail(
            f"{outer}/.ready is not there: mps-control-daemon has not brought all daemons up",
            "the log of mps-control-daemon says what it waits for",
        )
    return find.outcome(f"{count(len(traces), 'daemon')}, all answer")


def _check_daemon(host: Host, files: DaemonFiles, find: Findings) -> None:
    try:
        holder = lock_holder(files)
    except OSError as error:
        find.gap(
            f"who holds {files.lock} cannot be seen: {error.strerror}",
            "run it as root, in the container of mps-control-daemon or on the host",
        )
    else:
        alive = "nobody" if holder is None else f"process {holder}" if holder else "a process"
        find.saw(f"{files.resource}: {files.lock} is held by {alive}")
        if holder is None:
            find.fail(
                f"no MPS daemon runs for {files.resource}",
                f"tail -50 {files.control_log}; the log of mps-control-daemon",
            )
            return
    if host.edges.find_program(CONTROL_TOOL) is None:
        find.gap(
            f"{CONTROL_TOOL} is not here, so that no daemon can be asked",
            "run it in the container of mps-control-daemon, or on the host",
        )
        return
    answers, text = host.edges.ask_mps(files.root, files.resource, "get_server_list")
    if not answers:
        find.fail(
            f"the MPS daemon of {files.resource} does not answer: {one_line(text)}",
            f"tail -50 {files.control_log}; dmesg | grep -i -e xid -e nvrm",
        )
        return
    servers = re.findall(r"\d+", text)
    find.saw(f"{files.resource}: servers {', '.join(servers) or 'none, as there are no clients'}")
    for server in servers[:MOST_SERVERS]:
        answers, text = host.edges.ask_mps(files.root, files.resource, f"get_client_list {server}")
        clients = re.findall(r"\d+", text) if answers else []
        find.saw(f"{files.resource}: server {server} has {len(clients)} clients")


def check_memory(host: Host) -> Outcome:
    """Whether the shared memory of MPS is mounted and has room."""
    unused = _unused(host)
    if unused is not None:
        return unused
    root = mps_root(host)
    if not root:
        return not_checked("the directory of MPS is not seen from here")
    find = Findings()
    shm = join(root, "shm")
    outer = host.files.outer(shm)
    if not host.exists(shm):
        find.fail(f"there is no {outer}", "the init container mps-control-daemon-mounts makes it")
        return find.outcome("")
    mounts = host.own.read("/proc/self/mountinfo", 4 * 1024 * 1024).decode("utf-8", "replace")
    types = [
        line.split(" - ")[-1].split(" ")[0]
        for line in mounts.splitlines()
        if line.split(" ")[4:5] == [outer]
    ]
    find.saw(f"{outer}: {types[-1] if types else 'no mount of its own'}")
    if not types or types[-1] != "tmpfs":
        find.fail(
            f"{outer} is no tmpfs: daemons and clients do not share their memory",
            "mps-control-daemon mount-shm in a privileged container; does the host share its "
            "mounts? mount --make-rshared /",
        )
    space = host.edges.space(host.real(shm))
    find.saw(f"{outer}: {space.free >> 20} of {space.total >> 20} MiB are free")
    if space.total and space.free < min(LITTLE_SHM, space.total // 10):
        find.warn(
            f"{outer} is nearly full: {space.free >> 20} of {space.total >> 20} MiB are free",
            f"ls -l {outer}: remove what belongs to processes that have ended",
        )
    return find.outcome(f"{space.total >> 20} MiB, {space.free >> 20} MiB free")


def check_mode(host: Host) -> Outcome:
    """Whether the compute mode of the GPUs fits: exclusive with MPS, open to all without."""
    facts = host.nvml
    known = [gpu for gpu in facts.gpus if gpu.compute_mode is not None]
    config = host.usable_config()
    if config is None or not known:
        reason = "the configuration cannot be used" if config is None else "NVML does not tell"
        return not_checked(reason)
    find = Findings()
    for gpu in known:
        find.saw(f"GPU {gpu.index}: compute mode {gpu.compute_mode}")
    exclusive = [str(gpu.index) for gpu in known if gpu.compute_mode == EXCLUSIVE]
    prohibited = [str(gpu.index) for gpu in known if gpu.compute_mode == 2]
    if prohibited:
        find.fail(
            f"GPU {', '.join(prohibited)}: the compute mode allows no program at all",
            *(f"nvidia-smi -i {index} -c DEFAULT" for index in prohibited),
        )
    if exclusive and not config.uses_mps():
        find.fail(
            f"GPU {', '.join(exclusive)} serves one process only, and nothing is shared through "
            "MPS: a second program on it fails",
            *(f"nvidia-smi -i {index} -c DEFAULT" for index in exclusive),
        )
    elif not exclusive and config.uses_mps():
        find.warn(
            "no GPU is in the mode EXCLUSIVE_PROCESS, which mps-control-daemon sets: it has not "
            "come that far, or somebody has changed it",
            "the log of mps-control-daemon; nvidia-smi -q -d COMPUTE",
        )
    return find.outcome("exclusive, for MPS" if exclusive else "open to every program")


CHECKS = (
    Check(
        "mps-daemons",
        Group.MPS,
        "an MPS daemon runs for each shared resource and answers; its servers and clients",
        "troubleshooting.md#mps",
        check_daemons,
        seconds=MPS_SECONDS,
    ),
    Check(
        "mps-memory",
        Group.MPS,
        "the shared memory of MPS is mounted and has room",
        "mps.md#messages",
        check_memory,
    ),
    Check(
        "compute-mode",
        Group.MPS,
        "the GPUs' compute mode: exclusive with MPS, open without",
        "mps.md#when-somebody-is-killed",
        check_mode,
        real=True,
        seconds=15,
    ),
)
