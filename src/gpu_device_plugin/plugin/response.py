"""Answers to Allocate: how devices get into a container (k8s-device-plugin v0.19.3, server.go)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpu_device_plugin.config.model import Config, DeviceListStrategy
from gpu_device_plugin.hardware.roots import join_root
from gpu_device_plugin.imex import ImexChannel
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.resources.model import Device, Resource

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"
CONTAINER_DEVICES = "/var/run/nvidia-container-devices"
CONTROL_NODES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)


class Injector(Protocol):
    """Adds to a response what one mechanism (CDI, MPS) needs."""

    def inject(
        self, response: pb.ContainerAllocateResponse, resource: Resource, names: Sequence[str]
    ) -> None:
        """Completes the response for devices of those names.

        Raises:
            RequestError: the devices cannot be injected.
        """
        ...


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """What of the configuration decides over responses."""

    strategies: tuple[DeviceListStrategy, ...]
    by_index: bool
    pass_device_specs: bool
    dev_root: str
    """Host path below which device nodes are found."""
    features: tuple[tuple[str, str], ...] = ()
    """Environment variables of enabled features."""
    channels: tuple[ImexChannel, ...] = ()
    injectors: tuple[Injector, ...] = field(default=())

    @classmethod
    def of(
        cls,
        config: Config,
        channels: tuple[ImexChannel, ...] = (),
        injectors: tuple[Injector, ...] = (),
    ) -> AllocationSettings:
        """Takes the settings out of a validated configuration."""
        flags = config.flags
        features = (
            ("NVIDIA_GDRCOPY", flags.gdrcopy_enabled),
            ("NVIDIA_GDS", flags.gds_enabled),
            ("NVIDIA_MOFED", flags.mofed_enabled),
        )
        return cls(
            strategies=config.device_list_strategies,
            by_index=config.names_by_index(),
            pass_device_specs=bool(flags.plugin.pass_device_specs),
            dev_root=flags.nvidia_dev_root or "",
            features=tuple((name, "enabled") for name, on in features if on),
            channels=channels,
            injectors=injectors,
        )

    @property
    def has_plain_strategy(self) -> bool:
        """Whether anything but CDI is in use."""
        return any(not s.is_cdi for s in self.strategies)


def make_response(
    settings: AllocationSettings, resource: Resource, devices: Sequence[Device]
) -> pb.ContainerAllocateResponse:
    """The answer for one container.

    Args:
        settings: how devices are injected.
        resource: the resource that is asked for.
        devices: the devices behind the distinct ids, in the order of the request.

    Raises:
        RequestError: an injector cannot inject the devices.
    """
    response = pb.ContainerAllocateResponse()
    names = device_names(settings, devices)
    for injector in settings.injectors:
        injector.inject(response, resource, names)
    for name, value in settings.features:
        response.envs[name] = value
    if not settings.has_plain_strategy:
        return response
    if DeviceListStrategy.ENVVAR in settings.strategies:
        response.envs[VISIBLE_DEVICES] = ",".join(names)
        if settings.channels:
            response.envs[IMEX_CHANNELS] = ",".join(c.id for c in settings.channels)
    if DeviceListStrategy.VOLUME_MOUNTS in settings.strategies:
        response.envs[VISIBLE_DEVICES] = CONTAINER_DEVICES
        channels = (f"imex/{channel.id}" for channel in settings.channels)
        for name in (*names, *channels):
            response.mounts.add(host_path="/dev/null", container_path=f"{CONTAINER_DEVICES}/{name}")
    if settings.pass_device_specs:
        _add_device_nodes(response, settings, resource, devices)
    return response


def device_names(settings: AllocationSettings, devices: Sequence[Device]) -> tuple[str, ...]:
    """What the container runtime is told: each device once, in the order of the request."""
    return tuple(dict.fromkeys([device.name(by_index=settings.by_index) for device in devices]))


def _add_device_nodes(
    response: pb.ContainerAllocateResponse,
    settings: AllocationSettings,
    resource: Resource,
    devices: Sequence[Device],
) -> None:
    paths = list[str]()
    if resource.is_discrete:
        paths += [path for path in CONTROL_NODES if os.path.exists(path)]
    # Replicas and MIG devices of one GPU repeat its node, as in the original; the kubelet
    # passes each container path on once.
    paths += [path for device in devices for path in device.paths]
    paths += [channel.path for channel in settings.channels]
    for path in paths:
        response.devices.add(
            container_path=path,
            host_path=join_root(settings.dev_root, path),
            permissions="rw",
        )
