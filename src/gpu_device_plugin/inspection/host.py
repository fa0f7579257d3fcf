"""Whether the files that a specification names are on this host.

A runtime finds that out only when it starts a container, and the container then does not start.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from gpu_device_plugin.cdi.paths import clean
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.inspection.findings import Finding, warning
from gpu_device_plugin.inspection.parts import Part, all_edits

_STALE = "the specification is older than the node; have it written anew"


def host_root(path: str) -> Root:
    """The host's file system as this process sees it."""
    return Root(os.path.abspath(path), System())


def host_findings(spec: Part, host: Root) -> Iterator[Finding]:
    """A warning for each node, mount and hook program that is not there or not as described.

    What several fields name is told once, where the first of them stands.
    """
    places: dict[tuple[str, str], list[Place]] = {}
    for finding in _each_finding(spec, host):
        places.setdefault((finding.message, finding.hint), []).append(finding.place)
    for (message, hint), where in places.items():
        more = "" if len(where) == 1 else f", named {len(where)} times"
        yield warning(where[0], message + more, hint)


def _each_finding(spec: Part, host: Root) -> Iterator[Finding]:
    for edits in all_edits(spec):
        for node in edits.parts("deviceNodes"):
            yield from _node_findings(node, host)
        for mount in edits.parts("mounts"):
            path = _absolute(mount, "hostPath")
            if path and host.real(path) is None:
                yield _missing(mount, "hostPath", path)
        for hook in edits.parts("hooks"):
            yield from _hook_findings(hook, host)


def _node_findings(node: Part, host: Root) -> Iterator[Finding]:
    field = "hostPath" if node.text("hostPath") else "path"
    path = _absolute(node, field)
    if not path:
        return
    info = host.stat(path)
    if info is None:
        yield _missing(node, field, path)
    elif not _is_device(info.st_mode):
        yield warning(node.at(field), f"{one_line(path)} is no device node on this host")
    elif stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
        yield from _number_findings(node, path, info.st_rdev)


def _number_findings(node: Part, path: str, number: int) -> Iterator[Finding]:
    """A node's number can change when its driver is loaded again; a zero need not be given."""
    given = node.number("major"), node.number("minor")
    real = os.major(number), os.minor(number)
    if given not in {(0, 0), real}:
        yield warning(
            node.at("major"),
            f"is {given[0]}:{given[1]}, but {one_line(path)} is {real[0]}:{real[1]} on this host",
            _STALE,
        )


def _hook_findings(hook: Part, host: Root) -> Iterator[Finding]:
    path = _absolute(hook, "path")
    if not path:
        return
    info = host.stat(path)
    if info is None:
        yield warning(
            hook.at("path"),
            f"the program {one_line(path)} is not on this host",
            "containers will not start; --nvidia-cdi-hook-path names another one to the plugin",
        )
    elif not stat.S_ISREG(info.st_mode) or not info.st_mode & 0o111:
        yield warning(hook.at("path"), f"{one_line(path)} is not a program that can be run")


def _missing(part: Part, field: str, path: str) -> Finding:
    return warning(part.at(field), f"{one_line(path)} is not on this host")


def _absolute(part: Part, field: str) -> str:
    """The cleaned path of a field; empty if it is none that can be looked for."""
    path = part.text(field)
    return clean(path) if path and path.startswith("/") else ""


def _is_device(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode)
