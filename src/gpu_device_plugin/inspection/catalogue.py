"""The devices of specification files as container runtimes see them.

Where two files hold a device of the same name, the file in the directory with the higher
priority wins; two in one directory cancel each other out (CDI library v1.1.0, `pkg/cdi/cache.go`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpu_device_plugin.cdi.model import Device, Spec, merge
from gpu_device_plugin.inspection.files import SpecFile


class State(StrEnum):
    """Whether a runtime gives a device to containers."""

    OK = "ok"
    SHADOWED = "shadowed"
    """A file of a later directory has it, too, and is taken instead."""
    CONFLICT = "conflict"
    """Another file of the same directory has it, too: the name cannot be resolved."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A file and what it holds."""

    file: SpecFile
    spec: Spec


@dataclass(frozen=True, slots=True)
class Entry:
    """One device of one file."""

    file: str
    kind: str
    device: str
    nodes: int
    mounts: int
    hooks: int
    """Of these, a container gets so many: the device's own and those of all devices of the file."""
    state: State = State.OK
    others: tuple[str, ...] = ()
    """The other files that hold a device of this name."""

    @property
    def name(self) -> str:
        """The qualified name."""
        return f"{self.kind}={self.device}"

    @property
    def vendor(self) -> str:
        """The first part of the kind."""
        return self.kind.partition("/")[0]

    @property
    def cls(self) -> str:
        """The second part of the kind."""
        return self.kind.partition("/")[2]

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "name": self.name,
            "vendor": self.vendor,
            "class": self.cls,
            "device": self.device,
            "file": self.file,
            "nodes": self.nodes,
            "mounts": self.mounts,
            "hooks": self.hooks,
            "state": str(self.state),
            "others": list(self.others),
        }


def catalogue(specs: Iterable[ReadSpec]) -> tuple[Entry, ...]:
    """Every device of every file, in the order of the files.

    Args:
        specs: in the order in which runtimes read them, so that priorities never fall.
    """
    listed = [(read, device) for read in specs for device in read.spec.devices]
    holders: dict[str, _Holders] = {}
    for read, device in listed:
        holders.setdefault(f"{read.spec.kind}={device.name}", _Holders()).add(read.file)
    return tuple(_entry(read, device, holders) for read, device in listed)


@dataclass(slots=True)
class _Holders:
    """The files that hold a device of one name."""

    files: list[SpecFile] = field(default_factory=list)
    clash: bool = False
    """Once two of one directory clash, a file of a later directory does not help any more."""

    def add(self, file: SpecFile) -> None:
        self.clash = self.clash or any(f.priority == file.priority for f in self.files)
        self.files.append(file)

    def state(self, file: SpecFile) -> State:
        if self.clash:
            return State.CONFLICT
        return State.OK if file == self.files[-1] else State.SHADOWED


def _entry(read: ReadSpec, device: Device, holders: Mapping[str, _Holders]) -> Entry:
    found = holders[f"{read.spec.kind}={device.name}"]
    edits = merge(read.spec.edits, device.edits)
    return Entry(
        file=read.file.path,
        kind=read.spec.kind,
        device=device.name,
        nodes=len(edits.device_nodes),
        mounts=len(edits.mounts),
        hooks=len(edits.hooks),
        state=found.state(read.file),
        others=tuple(file.path for file in found.files if file != read.file),
    )
