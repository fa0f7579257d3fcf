"""ConfigMaps, their entries as configurations, and how they get into containers."""

from __future__ import annotations

import base64
import binascii
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.manifests import Object
from gpu_device_plugin.diagnosis.options import Options
from gpu_device_plugin.diagnosis.pods import Container, Mount, Volume
from gpu_device_plugin.diagnosis.recognise import speaks_of_configuration
from gpu_device_plugin.diagnosis.sources import Source, source_of_entry
from gpu_device_plugin.diagnosis.tree import Value


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A ConfigMap among the objects."""

    object: Object
    entries: Mapping[str, Source]
    findings: tuple[Finding, ...] = ()

    def texts(self) -> dict[str, str]:
        """Its entries as texts."""
        return {key: s.data.decode("utf-8", "replace") for key, s in self.entries.items()}

    def speaks_of_configuration(self) -> bool:
        """Whether any of its entries looks like a configuration."""
        return any(speaks_of_configuration(text) for text in self.texts().values())


def read_config_map(item: Object) -> ConfigMap:
    """The entries of a ConfigMap."""
    entries: dict[str, Source] = {}
    findings: list[Finding] = []
    for section in ("data", "binaryData"):
        for key, value in item.root.get(section).entries():
            subject = f"{item.title}, {key}"
            data = _bytes(value, section)
            if data is None:
                what = "not base64" if section == "binaryData" else "not a text"
                hint = "" if section == "binaryData" else "begin it with | and indent it"
                message = f"the value of {key} is {what}"
                finding = Finding(Severity.ERROR, value.place, message, hint, item.title)
                findings.append(finding)
            else:
                file = value.place.file
                entries[key] = source_of_entry(value.node, data, file, subject, item.last_line)
    return ConfigMap(item, entries, tuple(findings))


def _bytes(value: Value, section: str) -> bytes | None:
    if not isinstance(value.node.value, str):
        return None
    if section == "data":
        return value.text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode("".join(value.text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


@dataclass(slots=True)
class Library:
    """All ConfigMaps, and which of them have been read as configurations."""

    config_maps: Sequence[ConfigMap]
    used: set[int] = field(default_factory=set)
    """By identity: mounted by any pod, or read for variables."""

    def find(self, name: str, namespace: str) -> ConfigMap | None:
        """The ConfigMap of a name; one without a namespace is in any."""
        for found in self.config_maps:
            spaces = {found.object.namespace, namespace}
            if found.object.name == name and (len(spaces) == 1 or "" in spaces):
                self.used.add(id(found))
                return found
        return None

    def unused(self) -> Iterator[ConfigMap]:
        """Those that no pod has anything to do with."""
        return (found for found in self.config_maps if id(found) not in self.used)


@dataclass(frozen=True, slots=True)
class Found:
    """The configurations that a container may get."""

    sources: tuple[Source, ...] = ()
    findings: tuple[Finding, ...] = ()


def configurations_of(
    container: Container, options: Options, library: Library, others: Sequence[Options]
) -> Found:
    """What a container may find at the path of its configuration file.

    Args:
        container: of a program that reads a configuration.
        options: what it is told.
        library: the ConfigMaps.
        others: the options of the config-managers in the pod.
    """
    path = options.parsed.text("config-file")
    if not path:
        return Found()
    mount = container.mount_of(path)
    if mount is None:
        place = container.value.get("volumeMounts").place
        message = f"nothing is mounted where the configuration file is looked for, {path}"
        return Found(findings=(Finding(Severity.ERROR, place, message, "", container.title),))
    if mount.volume is None:
        return Found()
    if any(mount.volume.config_maps()):
        return _mounted(container, mount, mount.inside(path), library)
    if mount.volume.is_empty_dir:
        return _linked(container, mount, path, others, library)
    message = f"not checked: the configuration {path} is a file of the node"
    return Found(
        findings=(Finding(Severity.NOTE, mount.volume.value.place, message, "", container.title),)
    )


def _mounted(container: Container, mount: Mount, file: str, library: Library) -> Found:
    """The one entry of a ConfigMap that is mounted itself."""
    found = directory_of(container, mount, library)
    files = {posixpath.normpath(name): source for name, source in found.files.items()}
    if file in files:
        return Found((files[file],))
    if not found.is_complete:
        return Found(findings=found.findings)
    message = f"there is no {file} in the mounted ConfigMap"
    hint = f"there are {', '.join(files)}" if files else "it is empty"
    place = mount.value.place
    return Found(findings=(Finding(Severity.ERROR, place, message, hint, container.title),))


def _linked(
    container: Container,
    mount: Mount,
    path: str,
    managers: Sequence[Options],
    library: Library,
) -> Found:
    """The entries that a config-manager of the pod chooses from."""
    assert mount.volume is not None  # noqa: S101 - its caller has looked
    file = mount.inside(path)
    sources: list[Source] = []
    for manager in managers:
        target = manager.parsed.text("config-file-dst")
        there = manager.container.mount_of(target) if target else None
        if (
            there is not None
            and there.volume is not None
            and there.volume.name == mount.volume.name
            and there.inside(target) == file
        ):
            sources += choices_of(manager, library)
            break
    else:
        message = f"nothing writes the configuration file {path}"
        hint = "a config-manager in the pod has to link it: CONFIG_FILE_DST"
        place = mount.value.place
        return Found(findings=(Finding(Severity.ERROR, place, message, hint, container.title),))
    return Found(tuple(dict.fromkeys(sources)))


def choices_of(manager: Options, library: Library) -> tuple[Source, ...]:
    """The configurations that a config-manager, or an agent, chooses from."""
    mount = manager.container.mount_of(manager.parsed.text("config-file-srcdir") or "/")
    if mount is None:
        return ()
    return tuple(directory_of(manager.container, mount, library).files.values())


@dataclass(frozen=True, slots=True)
class Directory:
    """The files of a volume that is made of ConfigMaps."""

    files: Mapping[str, Source]
    findings: tuple[Finding, ...] = ()
    is_complete: bool = True
    """Whether all the ConfigMaps are among the objects."""


def directory_of(container: Container, mount: Mount, library: Library) -> Directory:
    """What is in a mounted volume."""
    files: dict[str, Source] = {}
    findings: list[Finding] = []
    for reference in () if mount.volume is None else mount.volume.config_maps():
        name = reference.get("name").text
        found = library.find(name, container.pod.object.namespace)
        if found is None:
            message = f"not checked: the ConfigMap {name} is not among what was given"
            title = container.pod.object.title
            findings.append(Finding(Severity.NOTE, reference.place, message, "", title))
            continue
        for file, key in Volume.files_of(reference, list(found.entries)).items():
            if key in found.entries:
                files[file] = found.entries[key]
            else:
                message = f"the ConfigMap {name} has no key {key}"
                place = reference.get("items").place
                hint = f"there are {', '.join(found.entries)}"
                title = container.pod.object.title
                findings.append(Finding(Severity.ERROR, place, message, hint, title))
    is_complete = all(finding.severity is Severity.ERROR for finding in findings)
    return Directory(files, tuple(findings), is_complete)


def is_manager(options: Options) -> bool:
    """Whether the options are those of config-manager."""
    return options.parsed.program is Program.CONFIG_MANAGER
