"""Which GPUs and MIG devices the configuration speaks of: by index, UUID or model.

The GPUs that ``extensions.gpus`` leaves out are taken out of the inventory before anything else
looks at it, as if the node did not have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpu_device_plugin.config.model import Config, Extensions, GpuSelection, MigStrategy
from gpu_device_plugin.config.patterns import matches
from gpu_device_plugin.config.selectors import REFERENCE
from gpu_device_plugin.hardware.model import Gpu, Inventory, MigDevice, Platform

TEGRA_NAME = "tegra"
WSL_NAME = "all"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a GPU or a MIG device goes by in the configuration."""

    references: frozenset[str]
    """Its index and UUID in lower case; for a MIG device, those of its GPU as well."""
    models: tuple[str, ...]
    """The name of the product, also as the label ``nvidia.com/gpu.product`` has it."""
    profile: str = ""
    """Of a MIG device."""

    @classmethod
    def of_gpu(cls, gpu: Gpu) -> Identity:
        """Of a whole GPU."""
        return cls._named(gpu.name, str(gpu.index), gpu.uuid)

    @classmethod
    def of_mig(cls, gpu: Gpu, mig: MigDevice) -> Identity:
        """Of a MIG device, which is selected wherever its GPU is."""
        slot = f"{gpu.index}:{mig.slot}"
        whole = cls._named(gpu.name, str(gpu.index), gpu.uuid, slot, mig.uuid)
        return replace(whole, profile=str(mig.profile))

    @classmethod
    def of_tegra(cls, inventory: Inventory) -> Identity:
        """Of the one GPU of a Tegra."""
        name = next((gpu.name for gpu in inventory.gpus), "")
        plain = cls._named(name, "0", TEGRA_NAME)
        return replace(plain, models=(TEGRA_NAME, *plain.models))

    @classmethod
    def _named(cls, name: str, *references: str) -> Identity:
        words = frozenset(word.lower() for word in references)
        return cls(words, (name, name.replace(" ", "-")))

    def is_among(self, selectors: Iterable[str]) -> bool:
        """Whether any of the references and patterns selects it."""
        return any(
            selector.lower() in self.references or any(matches(selector, m) for m in self.models)
            for selector in selectors
        )

    def has_profile(self, patterns: Iterable[str]) -> bool:
        """Whether it is a MIG device with a profile like one of these."""
        return bool(self.profile) and any(matches(p, self.profile) for p in patterns)


def identities(inventory: Inventory) -> Mapping[str, Identity]:
    """What the devices that the node may offer go by, by their ids.

    The one device that WSL has for all GPUs goes by what the first of them does.
    """
    if inventory.platform is Platform.TEGRA:
        return {TEGRA_NAME: Identity.of_tegra(inventory)}
    whole = {gpu.uuid: Identity.of_gpu(gpu) for gpu in inventory.gpus}
    migs = {mig.uuid: Identity.of_mig(gpu, mig) for gpu, mig in inventory.mig_pairs()}
    if inventory.platform is Platform.WSL and whole:
        whole[WSL_NAME] = next(iter(whole.values()))
    return whole | migs


def select_gpus(config: Config, inventory: Inventory) -> Inventory:
    """The inventory without the GPUs and MIG devices that are not to be offered.

    That of a Tegra, whose only device is no GPU of the inventory, stays as it is.
    """
    selection = config.extensions.gpus
    if selection == GpuSelection() or inventory.platform is Platform.TEGRA:
        return inventory
    cuts = config.flags.mig_strategy != MigStrategy.NONE
    gpus = (_select(gpu, selection, cuts=cuts) for gpu in inventory.gpus)
    return replace(
        inventory,
        gpus=tuple(gpu for gpu in gpus if gpu is not None),
        unreadable=tuple(g for g in inventory.unreadable if str(g.index) not in selection.exclude),
    )


def left_out(config: Config, inventory: Inventory) -> frozenset[str]:
    """The indices (``3``, ``3:1``) of all GPUs and MIG devices that are not to be offered.

    Where one device stands for all GPUs these are all of them, or none.
    """
    known = _indices(inventory)
    if inventory.platform is Platform.TEGRA:
        identity = Identity.of_tegra(inventory)
        is_offered = is_selected(config.extensions.gpus, identity)
        return frozenset() if is_offered else known | {"0"}
    selected = select_gpus(config, inventory)
    if inventory.platform is Platform.WSL and selected.gpus:
        return frozenset()
    return known - _indices(selected)


def _indices(inventory: Inventory) -> frozenset[str]:
    whole = map(str, inventory.indices())
    return frozenset((*whole, *(f"{gpu.index}:{mig.slot}" for gpu, mig in inventory.mig_pairs())))


def is_selected(selection: GpuSelection, identity: Identity) -> bool:
    """Whether the device is to be offered."""
    included = selection.include is None or identity.is_among(selection.include)
    return included and not identity.is_among(selection.exclude)


def _select(gpu: Gpu, selection: GpuSelection, *, cuts: bool) -> Gpu | None:
    """The GPU with the MIG devices that are selected; None if nothing of it is."""
    itself = is_selected(selection, Identity.of_gpu(gpu))
    if not cuts or not gpu.mig_devices:
        return gpu if itself else None
    kept = tuple(m for m in gpu.mig_devices if is_selected(selection, Identity.of_mig(gpu, m)))
    return replace(gpu, mig_devices=kept) if kept else None


def selection_warnings(config: Config, inventory: Inventory) -> Iterator[str]:
    """What in the configuration selects nothing and was probably meant to.

    A pattern may well find nothing, as one file serves many nodes; a reference, or a pattern
    that only lacks its ``*``, is more likely a mistake.
    """
    found = list(identities(inventory).values())
    if not found:
        return
    known = {str(gpu.index) for gpu in inventory.unreadable}.union(*(i.references for i in found))
    models = {model for identity in found for model in identity.models}
    for where, selectors in _selectors(config.extensions):
        for selector in dict.fromkeys(selectors):
            if re.fullmatch(REFERENCE, selector):
                if selector.lower() not in known:
                    yield f"{where}: this node has no GPU or MIG device {selector}"
            elif selector.lower() not in known:
                yield from _if_partial(where, selector, models)
    if config.extensions.honour_names:
        names = {gpu.name for gpu in inventory.gpus}
        for entry in config.resources.gpus or ():
            yield from _if_partial("resources.gpus", entry.pattern, names)


def _selectors(extensions: Extensions) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every list of references and patterns, with the key that holds it."""
    yield "extensions.gpus.include", extensions.gpus.include or ()
    yield "extensions.gpus.exclude", extensions.gpus.exclude
    for number, entry in enumerate(extensions.sharing):
        yield f"extensions.sharing[{number}].gpus", entry.gpus or ()


def _if_partial(where: str, pattern: str, names: Iterable[str]) -> Iterator[str]:
    """A warning if the pattern only matches parts of the names, as it would in v0.19.3."""
    if any(matches(pattern, name) for name in names):
        return
    if any(matches(pattern, name, anchored=False) for name in names):
        yield (
            f"{where}: the pattern {pattern!r} only matches a part of the name of a product "
            f"(did you mean '*{pattern.strip('*')}*'?)"
        )
