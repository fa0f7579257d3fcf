"""What runtimes refuse in container edits (CDI library v1.1.0, `pkg/cdi/container-edits.go`)."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.cdi.validate import HOOK_NAMES
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.inspection.findings import Finding, error, warning
from gpu_device_plugin.inspection.parts import Part

_NODE_TYPES = ("b", "c", "u", "p")
_LONGEST_FILE_NAME = 4096


def edit_findings(edits: Part) -> Iterator[Finding]:
    """Every fault of one set of edits."""
    yield from _env_findings(edits)
    for node in edits.parts("deviceNodes"):
        yield from _node_findings(node)
    yield from _net_findings(edits)
    for hook in edits.parts("hooks"):
        yield from _hook_findings(hook)
    for mount in edits.parts("mounts"):
        yield from _path_findings(mount, "hostPath")
        yield from _path_findings(mount, "containerPath")
    rdt = edits.part("intelRdt")
    if rdt is not None:
        yield from _rdt_findings(rdt)


def _env_findings(part: Part) -> Iterator[Finding]:
    for entry, place in part.texts("env"):
        if entry.find("=") < 1:
            yield error(place, f"{quote(entry)} is not NAME=value")


def _node_findings(node: Part) -> Iterator[Finding]:
    yield from _path_findings(node, "path")
    yield from _path_findings(node, "hostPath", required=False)
    kind = node.text("type")
    if kind and kind not in _NODE_TYPES:
        allowed = ", ".join(_NODE_TYPES)
        yield error(node.at("type"), f"unknown type {quote(kind)}", f"allowed: {allowed}")
    permissions = node.text("permissions")
    if permissions and permissions.strip("rwm"):
        yield error(
            node.at("permissions"), f"{quote(permissions)} is not allowed", "letters of rwm"
        )
    for name in ("major", "minor"):
        if node.number(name) < 0:
            yield warning(node.at(name), "is negative, which newer runtimes refuse")


def _net_findings(edits: Part) -> Iterator[Finding]:
    for name in ("hostInterfaceName", "name"):
        seen: set[str] = set()
        for device in edits.parts("netDevices"):
            text = device.text(name)
            if text == "":
                yield error(device.at(name), "is missing")
            elif text in seen:
                yield error(device.at(name), f"{quote(text)} is given twice")
            elif text is not None:
                seen.add(text)


def _hook_findings(hook: Part) -> Iterator[Finding]:
    name = hook.text("hookName")
    if name is not None and name not in HOOK_NAMES:
        fault = f"unknown hook {quote(name)}" if name else "is missing"
        yield error(hook.at("hookName"), fault, f"allowed: {', '.join(sorted(HOOK_NAMES))}")
    yield from _path_findings(hook, "path")
    yield from _env_findings(hook)


def _rdt_findings(rdt: Part) -> Iterator[Finding]:
    name = rdt.text("closID")
    if not name or name == "/":
        return
    size = len(name.encode(errors="replace"))
    if size >= _LONGEST_FILE_NAME or name in {".", ".."} or "/" in name or "\n" in name:
        yield error(rdt.at("closID"), f"{quote(name)} is not the name of a directory")


def _path_findings(part: Part, name: str, *, required: bool = True) -> Iterator[Finding]:
    path = part.text(name)
    if path is None:
        return
    if path and not path.startswith("/"):
        yield warning(part.at(name), f"{quote(path)} is not an absolute path")
    elif not path and required:
        yield error(part.at(name), "is missing")
