"""What runtimes refuse in a specification whose fields are all known and of the right types.

The rules are those of the CDI library v1.1.0 (`pkg/cdi`, `pkg/parser`, `internal/validation`).
`gpu_device_plugin.cdi.validate` has them for specifications that the plugin is about to write;
here they are applied to any file, go on after the first fault, and tell where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_device_plugin.cdi.names import device_name_fault, kind_fault
from gpu_device_plugin.cdi.version import KNOWN_VERSIONS
from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.inspection.edit_rules import edit_findings
from gpu_device_plugin.inspection.findings import Finding, error
from gpu_device_plugin.inspection.parts import Part
from gpu_device_plugin.inspection.versions import needed_version

_ANNOTATIONS_SIZE = 256 << 10
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""Both parts of a key, as Kubernetes has them for its own annotations."""


def rule_findings(spec: Part) -> Iterator[Finding]:
    """Every fault, in the order of the file."""
    yield from _version_findings(spec)
    kind = spec.text("kind")
    if kind is not None and kind_fault(kind):
        yield error(spec.at("kind"), kind_fault(kind))
    yield from _annotation_findings(spec)
    yield from _device_findings(spec)
    edits = spec.part("containerEdits")
    if edits is not None:
        yield from edit_findings(edits)


def _version_findings(spec: Part) -> Iterator[Finding]:
    given = spec.text("cdiVersion")
    if given is None:
        return
    version = given.removeprefix("v")
    if version not in KNOWN_VERSIONS:
        fault = f"unknown CDI version {quote(given)}" if given else "is missing"
        yield error(spec.at("cdiVersion"), fault, f"allowed: {', '.join(KNOWN_VERSIONS)}")
        return
    needed, reason = needed_version(spec)
    if KNOWN_VERSIONS.index(version) < KNOWN_VERSIONS.index(needed):
        yield error(
            spec.at("cdiVersion"), f"is {version}, but {reason} needs {needed}", f"say {needed}"
        )


def _device_findings(spec: Part) -> Iterator[Finding]:
    first: dict[str, Place] = {}
    devices = spec.fields.get("devices")
    if devices is None or devices.value in (None, []):
        yield error(spec.at("devices"), "has no device", "runtimes want at least one")
    for device in spec.parts("devices"):
        yield from _name_findings(device, first)
        yield from _annotation_findings(device)
        if _is_empty(device):
            yield error(
                device.at("containerEdits"),
                "adds nothing to a container",
                "leave the device out, or give it a device node or another edit",
            )
        edits = device.part("containerEdits")
        if edits is not None:
            yield from edit_findings(edits)


def _name_findings(device: Part, first: dict[str, Place]) -> Iterator[Finding]:
    name = device.text("name")
    if name is None:
        return
    where = device.at("name")
    if name in first:
        yield error(where, f"{quote(name)} is the name of {first[name].path}, too")
        return
    first[name] = device.place
    if device_name_fault(name):
        yield error(where, device_name_fault(name))


def _is_empty(device: Part) -> bool:
    """Whether the edits hold nothing at all; those of a wrong type are no emptiness."""
    if not device.has("containerEdits"):
        return True
    edits = device.part("containerEdits")
    return edits is not None and all(n.value in (None, []) for n in edits.fields.values())


def _annotation_findings(part: Part) -> Iterator[Finding]:
    annotations = part.mapping("annotations")
    for key in annotations:
        prefix, slash, name = key.rpartition("/")
        is_prefix = not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix.lower()))
        if not is_prefix or len(name) > 63 or not _NAME.fullmatch(name):
            yield error(
                part.at("annotations"),
                f"{quote(key)} is no key of an annotation",
                "like those of Kubernetes: NAME or PREFIX/NAME",
            )
    size = sum(len(k.encode(errors="replace")) + len(v.encode(errors="replace"))
               for k, v in annotations.items())  # fmt: skip
    if size > _ANNOTATIONS_SIZE:
        yield error(part.at("annotations"), f"holds {size} bytes", f"allowed: {_ANNOTATIONS_SIZE}")
