"""Processes of the node as /proc shows them: who plays device plugin, who watches files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.diagnosis.doctor.host import Host

PLUGIN_PROGRAM = re.compile(r"(^|/)(nvidia-device-plugin|k8s-device-plugin|gpu-node)$")
"""The names of our program and the original's; ``gpu-node agent`` is one, too."""
LISTENING = 0x10000
"""``__SO_ACCEPTCON``: the flag of a socket that takes connections (/proc/net/unix)."""
INOTIFY = "anon_inode:inotify"
_WATCH = re.compile(r"^inotify wd:", re.MULTILINE)
_SOCKET = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class PluginProcess:
    """A process that is a device plugin for NVIDIA GPUs."""

    pid: int
    command: str
    sockets: tuple[str, ...]
    """Paths at which it listens, as it sees them."""


def pids(host: Host) -> list[int]:
    """All processes that are seen from here."""
    return sorted(int(name) for name in host.files.listdir("/proc") if name.isdigit())


def plugin_processes(host: Host) -> Iterator[PluginProcess]:
    """Those that are device plugins; of others' sockets nothing is known without root."""
    for pid in pids(host):
        words = (host.text(f"/proc/{pid}/cmdline") or "").split("\0")
        if _is_plugin(words):
            yield PluginProcess(pid, " ".join(words).strip(), tuple(_listening(host, pid)))


def _is_plugin(words: list[str]) -> bool:
    # A script's interpreter comes before it.
    for number, word in enumerate(words[:3]):
        found = PLUGIN_PROGRAM.search(word)
        if found and (found[2] != "gpu-node" or words[number + 1 : number + 2] == ["agent"]):
            return True
    return False


def _listening(host: Host, pid: int) -> Iterator[str]:
    """The unix sockets at which a process takes connections."""
    own = {
        found[1]
        for name in host.files.listdir(f"/proc/{pid}/fd")
        if (found := _SOCKET.fullmatch(host.files.readlink(f"/proc/{pid}/fd/{name}") or ""))
    }
    for line in (host.text(f"/proc/{pid}/net/unix", 4 * 1024 * 1024) or "").splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[6] in own and int(fields[3], 16) & LISTENING:
            yield fields[7]


@dataclass(frozen=True, slots=True)
class InotifyUse:
    """Who has how many inotify instances and watches."""

    instances: Counter[int]
    """By uid."""
    watches: Counter[int]
    largest: tuple[tuple[str, int], ...]
    """The programs with the most instances."""
    unread: int
    """Processes that may not be looked into."""
    seen: int


def inotify_use(host: Host) -> InotifyUse:
    """Counts over all processes; those that end meanwhile are left out."""
    instances, watches, programs = Counter[int](), Counter[int](), Counter[str]()
    unread = seen = 0
    for pid in pids(host):
        status = host.text(f"/proc/{pid}/status")
        if status is None:
            continue
        seen += 1
        if not host.files.listdir(f"/proc/{pid}/fd") and "\nVmSize:" in status:
            unread += 1
        uid, name = _number(status, "Uid"), _word(status, "Name")
        for number in _inotify_files(host, pid):
            instances[uid] += 1
            programs[f"{name} ({pid})"] += 1
            info = host.text(f"/proc/{pid}/fdinfo/{number}", 64 * 1024 * 1024) or ""
            watches[uid] += len(_WATCH.findall(info))
    return InotifyUse(instances, watches, tuple(programs.most_common(3)), unread, seen)


def _inotify_files(host: Host, pid: int) -> list[str]:
    directory = f"/proc/{pid}/fd"
    names = host.files.listdir(directory)
    return [name for name in names if host.files.readlink(f"{directory}/{name}") == INOTIFY]


def _word(status: str, key: str) -> str:
    """The first word of a line of /proc/PID/status."""
    found = re.search(rf"^{key}:\s*(\S+)", status, re.MULTILINE)
    return found[1] if found else ""


def _number(status: str, key: str) -> int:
    word = _word(status, key)
    return int(word) if word.isdigit() else 0
