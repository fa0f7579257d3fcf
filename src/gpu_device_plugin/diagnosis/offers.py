"""Every GPU and MIG device of a node: what it is offered as and why, or why it is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import Config, MigStrategy, ResourcePattern
from gpu_device_plugin.config.patterns import matches
from gpu_device_plugin.diagnosis.causes import Cause, cause
from gpu_device_plugin.hardware.model import Gpu, Inventory, MigDevice, Platform
from gpu_device_plugin.resources.defaults import GPU_RESOURCE
from gpu_device_plugin.resources.model import Device, Plan, Resource
from gpu_device_plugin.resources.plan import mig_problem_of
from gpu_device_plugin.resources.selection import (
    TEGRA_NAME,
    Identity,
    identities,
    is_selected,
)
from gpu_device_plugin.resources.sharing import WORDS, deciding_entry

_STRATEGY = "flags.migStrategy"


@dataclass(frozen=True, slots=True)
class Offered:
    """A device of the node."""

    what: str
    """``GPU 3`` or ``MIG device 3:1``."""
    id: str
    model: str
    """The name of the product, or the profile."""
    resource: str = ""
    """The resource that it is part of; empty if it is not offered."""
    replicas: int = 0
    """0 if it is offered itself."""
    causes: tuple[Cause, ...] = ()
    base: str = ""
    """What the resource would be called if nothing were shared."""
    sharing: Cause | None = None
    """The one of the causes that shares it, if it is shared."""


def explain_devices(
    loaded: Loaded, config: Config, inventory: Inventory, plan: Plan
) -> list[Offered]:
    """Every device that could be offered, by GPU.

    Args:
        loaded: the configuration and what has set it.
        config: the same with its default resources.
        inventory: all of the node.
        plan: what follows.
    """
    return list(_Devices(loaded, config, inventory, plan).all())


class _Devices:
    def __init__(self, loaded: Loaded, config: Config, inventory: Inventory, plan: Plan) -> None:
        self._loaded = loaded
        self._config = config
        self._inventory = inventory
        self._names = identities(inventory)
        self._offered: Mapping[str, tuple[Resource, Device]] = {
            device.id: (resource, device)
            for resource in plan.resources
            for device in resource.devices
        }

    def all(self) -> Iterator[Offered]:
        if self._inventory.platform is Platform.TEGRA:
            yield self._whole("GPU 0", TEGRA_NAME, "tegra", self._config.resources.gpus or ())
        else:
            for gpu in self._inventory.gpus:
                yield from self._of_gpu(gpu)
        for gone in self._inventory.unreadable:
            yield Offered(f"GPU {gone.index}", "", "", causes=(_fact(gone.reason),))

    def _of_gpu(self, gpu: Gpu) -> Iterator[Offered]:
        is_cut = gpu.mig_enabled and self._config.flags.mig_strategy != MigStrategy.NONE
        patterns = self._config.resources.gpus or ()
        what = f"GPU {gpu.index}"
        if self._inventory.platform is Platform.WSL:
            yield self._whole(what, "all", gpu.name, patterns, gpu)
        elif not is_cut:
            yield self._whole(what, gpu.uuid, gpu.name, patterns, gpu)
        elif not gpu.mig_devices:
            reason = _fact("MIG is enabled, and there are no MIG devices")
            yield Offered(what, gpu.uuid, gpu.name, causes=(reason,))
        else:
            count = len(gpu.mig_devices)
            word = "MIG device" if count == 1 else "MIG devices"
            split = cause(self._loaded, _STRATEGY, f"but {count} {word} on it")
            yield Offered(what, gpu.uuid, gpu.name, causes=(split,))
        for mig in gpu.mig_devices:
            yield self._mig(gpu, mig)

    def _whole(
        self,
        what: str,
        device_id: str,
        model: str,
        patterns: Sequence[ResourcePattern],
        gpu: Gpu | None = None,
    ) -> Offered:
        if device_id in self._offered:
            base, why = self._base(model, patterns, "resources.gpus")
            return self._share(what, device_id, model, base, why)
        problem = "" if gpu is None else mig_problem_of(gpu, self._strategy)
        if problem:
            reason = _fact(f"its MIG state is unknown: {problem}")
            return Offered(what, device_id, model, causes=(reason,))
        identity = self._names.get(device_id) or Identity.of_tegra(self._inventory)
        return Offered(what, device_id, model, causes=tuple(self._left_out(identity)))

    def _mig(self, gpu: Gpu, mig: MigDevice) -> Offered:
        what, model = f"MIG device {gpu.index}:{mig.slot}", str(mig.profile)
        if mig.uuid in self._offered:
            base, why = self._base(model, self._config.resources.mig, "resources.mig")
            if not why.place:
                why = cause(self._loaded, _STRATEGY, f"named {base}")
            return self._share(what, mig.uuid, model, base, why)
        if self._strategy == MigStrategy.NONE:
            why = cause(
                self._loaded, _STRATEGY, f"not offered with the MIG strategy {self._strategy}"
            )
            return Offered(what, mig.uuid, model, causes=(why,))
        left_out = tuple(self._left_out(self._names[mig.uuid]))
        return Offered(what, mig.uuid, model, causes=left_out)

    @property
    def _strategy(self) -> str:
        return self._config.flags.mig_strategy or ""

    def _base(
        self, model: str, patterns: Sequence[ResourcePattern], path: str
    ) -> tuple[str, Cause]:
        """The resource before sharing, and the entry that names it; the built-in ones are last."""
        for number, entry in enumerate(patterns):
            if matches(entry.pattern, model):
                key = f"{path}[{number}]"
                rule = "built-in rule" if self._loaded.origin(key) is None else ""
                return entry.name, cause(self._loaded, key, f"named {entry.name}", rule)
        return GPU_RESOURCE, Cause(f"named {GPU_RESOURCE}", "built-in rule")

    def _left_out(self, identity: Identity) -> Iterator[Cause]:
        selection = self._config.extensions.gpus
        if is_selected(selection, identity):
            yield _fact("the node cannot be served as configured")
            return
        key = "extensions.gpus.exclude"
        if not identity.is_among(selection.exclude):
            key = "extensions.gpus.include"
        yield cause(self._loaded, key, "not selected" if key.endswith("include") else "excluded")

    def _share(self, what: str, device_id: str, model: str, base: str, why: Cause) -> Offered:
        resource, device = self._offered[device_id]
        causes = tuple(self._sharing(resource, device, base))
        return Offered(
            what,
            device_id,
            model,
            resource.name,
            device.replicas,
            (why, *causes),
            base,
            causes[0] if device.replicas and causes else None,
        )

    def _sharing(self, resource: Resource, device: Device, base: str) -> Iterator[Cause]:
        identity = self._names.get(device.id) or Identity.of_tegra(self._inventory)
        number = deciding_entry(self._config.extensions.sharing, identity)
        if number is not None:
            yield from self._by_extension(number, resource, device)
            return
        section = "sharing.timeSlicing" if self._config.sharing.mps is None else "sharing.mps"
        replicated = self._config.sharing.replicated
        for index, entry in enumerate(replicated.resources):
            fits = entry.name == base and entry.shared_name == resource.name
            if device.replicas and fits and entry.replicas == device.replicas:
                key = f"{section}.resources[{index}]"
                words = WORDS[resource.sharing]
                yield cause(self._loaded, key, f"{words}, {entry.replicas} replicas")
                if resource.name != base:
                    yield self._renamed(section, key, base, resource.name)
                return

    def _by_extension(self, number: int, resource: Resource, device: Device) -> Iterator[Cause]:
        key = f"extensions.sharing[{number}]"
        words = WORDS[resource.sharing]
        if device.replicas:
            words += f", {device.replicas} replicas"
        yield cause(self._loaded, key, words)
        entry = self._config.extensions.sharing[number]
        if entry.rename:
            yield cause(self._loaded, f"{key}.rename", f"renamed to {entry.rename}")

    def _renamed(self, section: str, key: str, base: str, name: str) -> Cause:
        what = f"renamed from {base} to {name}"
        if self._config.extensions.honour_names and self._loaded.origin(f"{key}.rename"):
            return cause(self._loaded, f"{key}.rename", what)
        return cause(self._loaded, f"{section}.renameByDefault", what)


def _fact(text: str) -> Cause:
    """Something that the hardware decides."""
    return Cause("", text)
