"""Labels of MIG devices under the strategies ``single`` and ``mixed``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.model import Config, MigStrategy
from gpu_device_plugin.hardware.model import Gpu, Inventory, MigDevice, MigProfile
from gpu_device_plugin.labels import keys
from gpu_device_plugin.labels.gpus import GPU_RESOURCE, mode_is_known
from gpu_device_plugin.labels.model import Facts, Finding, Label, Problem
from gpu_device_plugin.labels.shares import Terms, find_terms
from gpu_device_plugin.labels.values import product

OVERRIDDEN = (keys.PRODUCT, keys.COUNT, keys.REPLICAS, keys.SHARING_STRATEGY, keys.MEMORY)
"""What the strategy ``single`` says of MIG devices instead of GPUs."""


@dataclass(frozen=True, slots=True)
class Group:
    """All MIG devices of one profile; the first one stands for them."""

    profile: str
    """As labels show it."""
    model: str
    """Of the GPU of the first device; empty if that has no name."""
    devices: tuple[MigDevice, ...]


def label_profile(profile: MigProfile) -> str:
    """A profile as it stands in labels: ``1g.5gb+me`` becomes ``1g.5gb.me``."""
    return str(profile).replace("+", ".")


def mig_devices(config: Config, facts: Facts) -> Iterator[Finding]:
    """The strategy, and the MIG devices that it exposes."""
    strategy = config.flags.mig_strategy
    if strategy not in {MigStrategy.SINGLE, MigStrategy.MIXED}:
        return
    yield Label(keys.MIG_STRATEGY, strategy)
    inventory = facts.node.inventory
    problem = next(filter(None, map(_problem_of, inventory.gpus)), "")
    if problem:
        lost = [keys.of(keys.GPU, name) for name in OVERRIDDEN]
        costs = ("mig-*",) if strategy == MigStrategy.MIXED else tuple(lost)
        yield Problem(f"MIG devices cannot be read: {problem}", is_failure=True, costs=costs)
    if strategy == MigStrategy.MIXED:
        if not problem:
            yield from _mixed(config, inventory)
    elif problem:
        for name in OVERRIDDEN:
            yield Label(keys.of(keys.GPU, name), None)
    else:
        yield from _single(config, inventory)


def _problem_of(gpu: Gpu) -> str:
    """Why it is not known what a GPU is cut into; empty if it is, or if it is not cut at all."""
    if mode_is_known(gpu) and not gpu.mig_enabled:
        return ""
    if any(device.profile.memory_gib == 0 for device in gpu.mig_devices):
        return f"the memory of GPU {gpu.index}, by which profiles are called, is not known"
    return gpu.mig_problem


def _mixed(config: Config, inventory: Inventory) -> Iterator[Finding]:
    terms = find_terms(config, inventory)
    for group in groups(inventory):
        kind = keys.mig_kind(group.profile)
        yield from _group_labels(terms, group, kind, f"nvidia.com/{kind}")


def _single(config: Config, inventory: Inventory) -> Iterator[Finding]:
    cut = [gpu for gpu in inventory.gpus if gpu.mig_enabled]
    if not cut:
        return
    found = groups(inventory)
    reason = _why_not_single(inventory.gpus, found)
    if reason:
        yield Problem(f"MIG strategy single: {reason}; no GPU or MIG device is offered")
        yield from _invalid(cut[0], reason)
    else:
        terms = find_terms(config, inventory)
        yield from _group_labels(terms, found[0], keys.GPU, GPU_RESOURCE)


def _why_not_single(gpus: Iterable[Gpu], found: Sequence[Group]) -> str:
    """What keeps all GPUs from being exposed as one kind of MIG device; empty if nothing does."""
    for gpu in gpus:
        if gpu.mig_enabled and not gpu.mig_devices:
            return f"GPU {gpu.index} has MIG enabled, but no MIG devices"
    for gpu in gpus:
        if not gpu.mig_enabled:
            return f"MIG is enabled on some GPUs, but not on GPU {gpu.index}"
    if len(found) > 1:
        return "MIG devices have several profiles: " + ", ".join(g.profile for g in found)
    return ""


def _invalid(gpu: Gpu, reason: str) -> Iterator[Finding]:
    values = dict.fromkeys(OVERRIDDEN, "0") | {
        keys.PRODUCT: _product(gpu.name, "INVALID"),
        keys.SHARING_STRATEGY: "",
    }
    for name, value in values.items():
        yield Label(keys.of(keys.GPU, name), value, why=reason)


def _product(model: str, *suffixes: str) -> str | None:
    """The product of MIG devices; none without that of their GPU."""
    return product(model, "MIG", *suffixes) if model else None


def _group_labels(terms: Terms, group: Group, kind: str, resource: str) -> Iterator[Finding]:
    shares = terms.of(resource, group.devices[0].uuid)
    share = group.devices[0].attributes
    numbers = {
        keys.COUNT: len(group.devices),
        keys.REPLICAS: shares.replicas,
        keys.MEMORY: share.memory_mib,
        keys.MULTIPROCESSORS: share.multiprocessors,
        keys.SLICES_GI: share.gpu_instance_slices,
        keys.SLICES_CI: share.compute_instance_slices,
        keys.ENGINES_COPY: share.shared_copy_engines,
        keys.ENGINES_DECODER: share.shared_decoders,
        keys.ENGINES_ENCODER: share.shared_encoders,
        keys.ENGINES_JPEG: share.shared_jpeg,
        keys.ENGINES_OFA: share.shared_ofa,
    }
    named = _product(group.model, group.profile, *shares.suffixes)
    yield Label(keys.of(kind, keys.PRODUCT), named)
    yield Label(keys.of(kind, keys.SHARING_STRATEGY), shares.strategy)
    for name, number in numbers.items():
        yield Label(keys.of(kind, name), str(number))


def groups(inventory: Inventory) -> list[Group]:
    """The MIG devices by profile, in the order of their first devices."""
    found = dict[str, list[tuple[Gpu, MigDevice]]]()
    for gpu, device in inventory.mig_pairs():
        if gpu.mig_enabled:
            found.setdefault(label_profile(device.profile), []).append((gpu, device))
    return [
        Group(profile, pairs[0][0].name, tuple(device for _, device in pairs))
        for profile, pairs in found.items()
    ]
