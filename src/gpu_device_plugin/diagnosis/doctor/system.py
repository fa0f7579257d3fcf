"""Checks of limits and resources of the system that a GPU node runs out of."""

from __future__ import annotations

from datetime import UTC, datetime

from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.diagnosis.doctor.processes import inotify_use

INOTIFY = "/proc/sys/fs/inotify"
NEARLY_ALL = 0.8
"""From this share of a limit on it is told."""
FEW_FILES = 4096
SHM = "/dev/shm"  # noqa: S108 - the place itself
LITTLE_SHM = 64 * 1024 * 1024
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
"""No node of this version was set up before that."""


def check_inotify(host: Host) -> Outcome:
    """Whether another process can watch files, as the plugin does."""
    find = Findings()
    instances = _limit(host, "max_user_instances")
    watches = _limit(host, "max_user_watches")
    problem = host.edges.open_inotify()
    find.saw(f"fs.inotify.max_user_instances={instances}, fs.inotify.max_user_watches={watches}")
    if problem:
        find.fail(
            f"no inotify instance can be had: {problem} (the plugin polls instead)",
            _sysctl("max_user_instances", max(instances or 0, 512) * 2),
        )
    use = inotify_use(host)
    for uid, count in use.instances.most_common(3):
        find.saw(f"uid {uid} has {count} instances with {use.watches[uid]} watches")
    if use.largest:
        find.saw("most instances: " + ", ".join(f"{name} {count}" for name, count in use.largest))
    if use.unread:
        find.gap(f"{use.unread} of {use.seen} processes may not be looked into", "run it as root")
    for name, limit, counts in (
        ("max_user_instances", instances, use.instances),
        ("max_user_watches", watches, use.watches),
    ):
        for uid, count in counts.items():
            if limit and count >= limit * NEARLY_ALL:
                find.warn(
                    f"uid {uid} uses {count} of {limit} (fs.inotify.{name})",
                    _sysctl(name, limit * 4),
                )
    most = max(use.instances.values(), default=0)
    return find.outcome(f"{most} of {instances or '?'} instances are used by one user")


def _limit(host: Host, name: str) -> int | None:
    text = (host.text(f"{INOTIFY}/{name}") or "").strip()
    return int(text) if text.isdigit() else None


def _sysctl(name: str, value: int) -> str:
    return (
        f"sysctl -w fs.inotify.{name}={value}; and for the next boot: "
        f"echo fs.inotify.{name}={value} > /etc/sysctl.d/90-inotify.conf"
    )


def check_files(host: Host) -> Outcome:
    """Whether processes may open enough files, and the system has some left."""
    find = Findings()
    soft, hard = host.edges.open_files()
    find.saw(f"RLIMIT_NOFILE of this process: {_any(soft)}, at most {_any(hard)}")
    if 0 <= soft < FEW_FILES <= (hard if hard >= 0 else FEW_FILES):
        find.saw("the soft limit can be raised by each program itself")
    elif 0 <= soft < 1024:
        find.warn(
            f"a process may open {soft} files only",
            "LimitNOFILE=1048576 for containerd or crio: systemctl edit containerd; then restart it",
        )
    words = (host.text("/proc/sys/fs/file-nr") or "").split()
    if len(words) == 3 and all(word.isdigit() for word in words):
        used, most = int(words[0]), int(words[2])
        find.saw(f"fs.file-nr: {used} of {most} are open on this machine")
        if used >= most * NEARLY_ALL:
            find.warn(
                f"{used} of {most} files (fs.file-max) are open on this machine",
                f"sysctl -w fs.file-max={most * 2}; who has them: lsof -n | "
                "awk '{print $1}' | sort | uniq -c | sort -n | tail",
            )
    return find.outcome(f"{_any(soft)} for a process")


def _any(limit: int) -> str:
    return "unlimited" if limit < 0 else str(limit)


def check_shm(host: Host) -> Outcome:
    """Whether there is shared memory left, which NCCL and MPS need."""
    find = Findings()
    outer = host.files.outer(SHM)
    try:
        space = host.edges.space(host.real(SHM))
    except OSError as error:
        return not_checked(f"{outer} cannot be looked at: {error.strerror}")
    find.saw(f"{outer}: {space.free >> 20} of {space.total >> 20} MiB are free")
    if not space.total:
        return not_checked(f"{outer} is no file system with a size", evidence=(*find.evidence,))
    # A container's own is 64 MiB by default, which says nothing about the node.
    if space.free < min(LITTLE_SHM, space.total // 2):
        find.warn(
            f"{outer} is nearly full: {space.free >> 20} of {space.total >> 20} MiB are free",
            f"ls -lS {outer} | head: what processes that have crashed have left may be removed",
        )
    return find.outcome(f"{space.free >> 20} of {space.total >> 20} MiB are free")


def check_clock(host: Host) -> Outcome:
    """Whether the clock is right, without which certificates and tokens are refused."""
    find = Findings()
    now = host.edges.now()
    synchronised = host.edges.is_clock_synchronised()
    find.saw(f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC")
    find.saw(f"synchronised: {'not known' if synchronised is None else _yes(synchronised)}")
    mend = "timedatectl set-ntp true; chronyc tracking, or timedatectl timesync-status"
    if now < EARLIEST:
        find.fail("the clock is years behind: TLS and tokens of the API are refused", mend)
    elif synchronised is False:
        find.warn("the kernel's clock follows no time server", mend)
    return find.outcome("synchronised" if synchronised else "plausible")


def _yes(value: bool) -> str:
    return "yes" if value else "no"


CHECKS = (
    Check(
        "inotify",
        Group.SYSTEM,
        "fs.inotify.max_user_instances and max_user_watches against what is used",
        "doctor.md#inotify",
        check_inotify,
        seconds=20,
    ),
    Check(
        "open-files",
        Group.SYSTEM,
        "limits of open files, of a process and of the machine",
        "doctor.md#open-files",
        check_files,
    ),
    Check(
        "shared-memory",
        Group.SYSTEM,
        "room in /dev/shm",
        "doctor.md#shared-memory",
        check_shm,
        real=True,
    ),
    Check("clock", Group.SYSTEM, "the clock is synchronised", "doctor.md#clock", check_clock),
)
