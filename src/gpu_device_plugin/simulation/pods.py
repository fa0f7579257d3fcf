"""Pods as far as devices are concerned, and what a kubelet gives to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Container:
    """A container and how many devices of which resources it asks for."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    """Devices by full resource name, such as ``nvidia.com/gpu``."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod that somebody wants to run; its name is its identity."""

    name: str
    containers: tuple[Container, ...] = ()
    namespace: str = "default"

    @classmethod
    def of(cls, name: str, limits: Mapping[str, int], namespace: str = "default") -> PodSpec:
        """A pod with one container."""
        return cls(name, (Container("main", limits),), namespace)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Devices of one resource that a container has, and how they get into it."""

    container: str
    resource: str
    device_ids: tuple[str, ...]
    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    """Host path and container path of each."""
    device_nodes: tuple[str, ...] = ()
    """Host paths."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that was admitted."""

    spec: PodSpec
    assignments: tuple[Assignment, ...] = ()

    @property
    def name(self) -> str:
        """The pod's name."""
        return self.spec.name

    def device_ids(self, resource: str) -> tuple[str, ...]:
        """What all its containers have of a resource."""
        return tuple(
            device_id
            for assignment in self.assignments
            if assignment.resource == resource
            for device_id in assignment.device_ids
        )
