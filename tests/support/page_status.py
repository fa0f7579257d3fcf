"""Statuses of nodes as plain data: simulated nodes with pods, faults, logs and settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan
from gpu_device_plugin.status.collect import Holders, describe_hardware, describe_resource
from gpu_device_plugin.status.model import (
    SCHEMA,
    Check,
    Configuration,
    DeviceStatus,
    Holder,
    LogEvent,
    NodeStatus,
    Pods,
    Reloading,
    Setting,
)
from gpu_device_plugin.status.settings import describe_configuration
from support.configs import a_config, time_sliced

NOW = 1764382586.0
"""2025-11-29 02:16:26 UTC."""

GPU = "nvidia.com/gpu"
OK = Check(ok=True)

LOG = (
    ("info", "plugin.served", "registered resource=nvidia.com/gpu endpoint=nvidia-gpu.sock"),
    ("info", "plugin.health", "GPU health is being watched"),
    ("info", "plugin.supervisor", "offering nvidia.com/gpu: 8 devices"),
    ("info", "programs.device_plugin", "starting nvidia-device-plugin v0.19.3"),
)

Ills = dict[int, Ailment]


def xid(number: int, first: float = NOW - 742, last: float = NOW - 700, count: int = 1) -> Ailment:
    """Some minutes ago."""
    return Ailment(f"XID {number}", Severity.RECOVERABLE, first, last, count)


def lost(first: float = NOW - 742) -> Ailment:
    """Off the bus."""
    return Ailment("it has fallen off the bus", Severity.LOST, first, first + 2, 2)


def a_status(
    profile: str = "dgx-a100",
    *,
    replicas: int = 0,
    mig_strategy: str = "mixed",
    ills: Ills | None = None,
    holders: Callable[[Iterable[tuple[str, str]]], Holders] | None = None,
    watch: str = "watching",
    log: Iterable[tuple[str, str, str]] = LOG,
) -> NodeStatus:
    """The status of a plugin that serves a simulated node.

    Args:
        profile: of the node.
        replicas: of each GPU, by time-slicing; 0 for none.
        mig_strategy: of the plugin.
        ills: what is known against GPUs, by index; hits all devices of the GPU.
        holders: who holds what, made from all devices by resource and id; None: not asked.
        watch: how far the watching of health is.
        log: level, source and text of log lines.
    """
    config = a_config(mig_strategy=mig_strategy)
    if replicas:
        config = replace(config, sharing=time_sliced(replicas))
    backend = SimulatedBackend.from_profile(profile)
    inventory = backend.read()
    gone = {n for n, ill in (ills or {}).items() if ill.severity is Severity.LOST}
    inventory = replace(
        inventory,
        gpus=tuple(
            replace(gpu, lost="it has fallen off the bus" if gpu.index in gone else "")
            for gpu in inventory.gpus
        ),
    )
    plan = make_plan(with_default_resources(config, inventory), inventory)
    devices = [
        (resource.name, device.id) for resource in plan.resources for device in resource.devices
    ]
    held = None if holders is None else holders(devices)
    return NodeStatus(
        schema=SCHEMA,
        program="nvidia-device-plugin",
        version="0.19.3",
        node="gpu-node-07",
        time=NOW,
        started=NOW - 273_000,
        live=OK,
        ready=OK,
        hardware=describe_hardware(
            inventory,
            backend.read_links(inventory, lambda: False),
            simulated=profile,
            watch=watch,
        ),
        resources=tuple(
            describe_resource(
                resource,
                {
                    device.id: (ills or {})[device.gpu_index]
                    for device in resource.devices
                    if device.gpu_index in (ills or {})
                },
                held,
                state="registered",
                registered=True,
                streams=1,
            )
            for resource in plan.resources
        ),
        pods=Pods(asked=held is not None, time=NOW - 3),
        configuration=a_configuration(replicas),
        events=tuple(LogEvent(NOW - 60 * n * n, *line) for n, line in enumerate(log)),
    )


def a_configuration(replicas: int = 0) -> Configuration:
    """As if from a file."""
    told = describe_configuration(
        Loaded(a_config(mig_strategy="mixed"), file="/config/config.yaml"),
        reload=Reloading(NOW - 3600, ""),
    )
    settings = tuple(
        replace(s, origin="MIG_STRATEGY") if s.path == "flags.migStrategy" else s
        for s in told.settings
    )
    if replicas:
        path = "sharing.timeSlicing.resources[0].replicas"
        settings += (Setting(path, str(replicas), "/config/config.yaml:9"),)
    return replace(told, settings=settings)


def two_jobs(devices: Iterable[tuple[str, str]]) -> Holders:
    """A job on four GPUs, one on two, and a notebook; the rest is free."""
    names = ["train-llama-0"] * 4 + ["finetune-7b-worker-1"] * 2 + ["notebook-anna"]
    spaces = ["ml-research"] * 4 + ["team-vision"] * 2 + ["default"]
    return {
        device: [Holder(space, name, "main")]
        for device, name, space in zip(devices, names, spaces, strict=False)
    }


def many_pods(count: int, replicas: int, seed: int = 7) -> Callable[..., Holders]:
    """So many pods on each device, each with one replica, as deployments name them."""
    rng = random.Random(seed)

    def hold(devices: Iterable[tuple[str, str]]) -> Holders:
        return {
            device: [
                Holder(
                    "inference", f"chat-api-{rng.randrange(16**9):09x}-{word(rng)}", "server", (n,)
                )
                for n in sorted(rng.sample(range(replicas), count))
            ]
            for device in devices
        }

    return hold


def word(rng: random.Random) -> str:
    """Five letters."""
    return "".join(rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))


def half_of_800() -> NodeStatus:
    """Eight GPUs in 100 replicas each, of which 50 are held by as many pods."""
    return a_status(replicas=100, holders=many_pods(50, 100), log=LOG * 8)


def device_of(status: NodeStatus, index: str) -> DeviceStatus:
    """A device by its index."""
    return next(d for r in status.resources for d in r.devices if d.index == index)
