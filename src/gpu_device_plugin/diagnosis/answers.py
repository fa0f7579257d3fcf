"""What a container would get that asks for a resource: the answer to Allocate."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_device_plugin.cdi.generate import additional_devices, generate
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import AllocationPolicy, Config, SharingStrategy
from gpu_device_plugin.diagnosis.causes import Cause, cause
from gpu_device_plugin.errors import InitError, RequestError, UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.hardware.roots import find_dev_root
from gpu_device_plugin.imex import ImexChannel, find_channels
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.mps.names import PIPE_VARIABLE
from gpu_device_plugin.plugin.cdi import cdi_injector, cdi_options
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.mps import mps_injector
from gpu_device_plugin.plugin.preference import LinkedGpus
from gpu_device_plugin.plugin.response import (
    CONTAINER_DEVICES,
    IMEX_CHANNELS,
    VISIBLE_DEVICES,
    AllocationSettings,
    Injector,
    make_response,
)
from gpu_device_plugin.resources.model import Plan, Resource
from gpu_device_plugin.resources.requests import requested_devices
from gpu_device_plugin.resources.spreading import prefer_replicas

LIST_STRATEGY = "flags.plugin.deviceListStrategy"
ID_STRATEGY = "flags.plugin.deviceIDStrategy"
DEVICE_SPECS = "flags.plugin.passDeviceSpecs"
_FEATURES = {
    "NVIDIA_GDRCOPY": "flags.gdrcopyEnabled",
    "NVIDIA_GDS": "flags.gdsEnabled",
    "NVIDIA_MOFED": "flags.mofedEnabled",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a container asks for."""

    resource: str
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a container gets."""

    kind: str
    """``variable``, ``mount``, ``device node``, ``annotation`` or ``CDI device``."""
    name: str
    value: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class Answer:
    """What a container gets, or why it gets nothing."""

    request: Request
    ids: tuple[str, ...] = ()
    """The devices that the plugin prefers if all are free."""
    parts: tuple[Part, ...] = ()
    problem: str = ""
    note: str = ""
    """What cannot be told here, and why."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "resource": self.request.resource,
            "size": self.request.size,
            "devices": list(self.ids),
            "problem": self.problem or None,
            "note": self.note or None,
            "parts": [
                {
                    "kind": part.kind,
                    "name": part.name,
                    "value": part.value,
                    "because": str(part.cause),
                }
                for part in self.parts
            ],
        }


def parse_request(text: str) -> Request:
    """Reads ``nvidia.com/gpu=2``.

    Raises:
        ValueError: it is not one.
    """
    name, equals, number = text.partition("=")
    size = int(number) if number.isascii() and number.isdigit() and len(number) < 7 else 0
    if not name or (equals and not size):
        raise ValueError(f"{text!r} is not of the form RESOURCE=NUMBER")
    full = name if "/" in name else f"nvidia.com/{name}"
    return Request(full, size or 1)


@dataclass(frozen=True, slots=True)
class Answering:
    """A node that answers as the plugin would."""

    loaded: Loaded
    config: Config
    """With default resources."""
    cdi: CdiSettings
    inventory: Inventory
    backend: Backend
    plan: Plan

    def answer(self, request: Request) -> Answer:
        """What a container gets if nothing is in use."""
        try:
            resource = self._find(request.resource)
            ids = self._prefer(resource, request.size)
            devices = requested_devices(resource, ids)
            features, note = self._features()
            response = make_response(self._settings(features), resource, devices)
        except UserError as error:
            return Answer(request, problem=str(error))
        parts = tuple(self._parts(resource, response))
        return Answer(request, tuple(ids), parts, note=note)

    def _find(self, name: str) -> Resource:
        for resource in self.plan.resources:
            if resource.name == name:
                return resource
        there = ", ".join(self.plan.names()) or "none"
        raise RequestError(f"the node has no resource {name}", f"there are: {there}")

    def _prefer(self, resource: Resource, size: int) -> list[str]:
        ids = list(resource.ids())
        if size > len(ids):
            raise RequestError(
                f"the node has {len(ids)} of {resource.name}, fewer than {size}",
                "pods that ask for more stay pending",
            )
        is_shared = any(device.is_replicated for device in resource.devices)
        if resource.is_plain_gpus and not is_shared:
            chooser = LinkedGpus(self.inventory.gpus)
            chooser.set_links(self._links())
            return asyncio.run(chooser.prefer(resource, ids, [], size))
        policy = self.config.flags.plugin.shared_devices_allocation_policy
        return prefer_replicas(
            resource, ids, [], size, AllocationPolicy(policy or AllocationPolicy.DISTRIBUTED)
        )

    def _links(self) -> Links:
        try:
            return self.backend.read_links(self.inventory, lambda: False)
        except InitError as error:
            return Links(problems=(str(error),))

    def _channels(self) -> tuple[ImexChannel, ...]:
        imex = self.config.imex
        dev_root = find_dev_root(self.config.flags.plugin.container_driver_root or "/")
        return find_channels(imex.channel_ids, dev_root, required=imex.required)

    def _features(self) -> tuple[tuple[str, ...], str]:
        """The CDI names of features that every container gets, or why they are not known."""
        flags = self.config.flags
        wanted = flags.gdrcopy_enabled or flags.gds_enabled or flags.mofed_enabled
        if not wanted or not self.config.uses_cdi():
            return (), ""
        try:
            options = cdi_options(self.config, self.cdi, self.inventory, self._channels())
            return tuple(additional_devices(generate(options, self.inventory))), ""
        except UserError as error:
            return (), f"CDI names of GDRCopy, GDS and MOFED are not known here: {error}"

    def _settings(self, features: tuple[str, ...]) -> AllocationSettings:
        config = self.config
        channels = self._channels()
        injectors: list[Injector] = []
        if config.uses_cdi():
            injectors.append(cdi_injector(config, channels, features))
        if config.uses_mps():
            injectors.append(mps_injector(config))
        return AllocationSettings.of(config, channels, tuple(injectors))

    def _parts(self, resource: Resource, response: pb.ContainerAllocateResponse) -> list[Part]:
        listed = cause(self.loaded, LIST_STRATEGY, "")
        parts = [
            Part("variable", name, response.envs[name], self._of_variable(resource, name))
            for name in sorted(response.envs)
        ]
        for mount in response.mounts:
            by_mps = not mount.container_path.startswith(CONTAINER_DEVICES)
            why = self._of_mps(resource) if by_mps else listed
            parts.append(Part("mount", mount.container_path, mount.host_path, why))
        specs = cause(self.loaded, DEVICE_SPECS, "")
        parts += [
            Part("device node", node.container_path, f"{node.host_path} {node.permissions}", specs)
            for node in response.devices
        ]
        annotations: Mapping[str, str] = response.annotations
        parts += [Part("annotation", key, annotations[key], listed) for key in sorted(annotations)]
        parts += [Part("CDI device", device.name, "", listed) for device in response.cdi_devices]
        return parts

    def _of_variable(self, resource: Resource, name: str) -> Cause:
        if name in _FEATURES:
            return cause(self.loaded, _FEATURES[name], "")
        if name == PIPE_VARIABLE:
            return self._of_mps(resource)
        if name == IMEX_CHANNELS:
            return cause(self.loaded, "imex.channelIDs", "")
        assert name == VISIBLE_DEVICES, name  # noqa: S101 - the plugin sets no others
        return cause(self.loaded, LIST_STRATEGY, "")

    def _of_mps(self, resource: Resource) -> Cause:
        section = "sharing.mps"
        if self.config.sharing.strategy is not SharingStrategy.MPS:
            section = "extensions.sharing"
        return cause(self.loaded, section, "", f"{resource.name} is shared through MPS")
