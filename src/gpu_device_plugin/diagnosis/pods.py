"""Pods and the containers of these programs in them, as manifests describe them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_device_plugin.diagnosis.manifests import Object
from gpu_device_plugin.diagnosis.tree import Value

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        (
            "DaemonSet",
            "Deployment",
            "Job",
            "ReplicaSet",
            "ReplicationController",
            "StatefulSet",
        ),
        ("spec", "template", "spec"),
    ),
}
"""Where the objects that make pods describe them."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod."""

    name: str
    value: Value

    @property
    def host_path(self) -> str:
        """The directory of the node, if it is one."""
        return self.value.get("hostPath", "path").text

    @property
    def is_empty_dir(self) -> bool:
        """Whether it is an ``emptyDir``, in which containers of the pod share files."""
        return "emptyDir" in dict(self.value.entries())

    def config_maps(self) -> Iterator[Value]:
        """The ConfigMaps in it: values with a name and, perhaps, items."""
        if self.value.get("configMap").exists:
            yield self.value.get("configMap")
        for source in self.value.get("projected", "sources").items():
            if source.get("configMap").exists:
                yield source.get("configMap")

    @staticmethod
    def files_of(config_map: Value, keys: list[str]) -> dict[str, str]:
        """The keys of a ConfigMap by the files that they become."""
        items = list(config_map.get("items").items())
        if not items:
            return {key: key for key in keys}
        return {
            posixpath.normpath(item.get("path").text): item.get("key").text
            for item in items
            if item.get("path").text
        }


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a container."""

    value: Value
    path: str
    volume: Volume | None
    """None if the pod has no volume of that name."""

    @property
    def sub_path(self) -> str:
        """The part of the volume that is mounted; empty for all of it."""
        return self.value.get("subPath").text

    @property
    def is_read_only(self) -> bool:
        """Whether the container cannot write there."""
        return self.value.get("readOnly").is_true()

    def inside(self, path: str) -> str:
        """The path in the volume of a path in the container."""
        return posixpath.normpath(posixpath.join(self.sub_path, posixpath.relpath(path, self.path)))


@dataclass(frozen=True, slots=True)
class Container:
    """A container of a pod."""

    value: Value
    pod: Pod
    is_init: bool = False

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return self.value.get("name").text

    @property
    def title(self) -> str:
        """The object and the container, for messages."""
        return f"{self.pod.object.title}, container {self.name}"

    def mounts(self) -> Iterator[Mount]:
        """What is mounted."""
        volumes = self.pod.volumes()
        for value in self.value.get("volumeMounts").items():
            path = value.get("mountPath").text
            if path:
                name = value.get("name").text
                yield Mount(value, posixpath.normpath(path), volumes.get(name))

    def mount_of(self, path: str) -> Mount | None:
        """The mount that a path is in; None if it is in the image."""
        wanted = posixpath.normpath(path)
        found = [m for m in self.mounts() if (wanted + "/").startswith(m.path.rstrip("/") + "/")]
        return max(found, key=lambda mount: len(mount.path), default=None)

    def security(self, key: str) -> Value:
        """A setting of its security context, or of that of the pod."""
        own = self.value.get("securityContext", key)
        return own if own.exists else self.pod.spec.get("securityContext", key)


@dataclass(frozen=True, slots=True)
class Pod:
    """What an object says about its pods."""

    object: Object
    spec: Value

    def volumes(self) -> dict[str, Volume]:
        """By their names."""
        return {name: Volume(name, v) for name, v in self.spec.get("volumes").named()}

    def containers(self) -> Iterator[Container]:
        """All of them."""
        for key in ("initContainers", "containers"):
            for value in self.spec.get(key).items():
                yield Container(value, self, is_init=key == "initContainers")

    @property
    def account(self) -> str:
        """The name of its service account."""
        for key in ("serviceAccountName", "serviceAccount"):
            if name := self.spec.get(key).text:
                return name
        return "default"


def pod_of(item: Object) -> Pod | None:
    """The pods that an object makes; None if it makes none."""
    path = _TEMPLATES.get(item.kind)
    return None if path is None else Pod(item, item.root.get(*path))
