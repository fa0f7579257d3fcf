"""What every part of the generation works with."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_device_plugin.cdi.hooks import ALL, KNOWN, Hooks
from gpu_device_plugin.cdi.locate import Libraries
from gpu_device_plugin.cdi.notes import Notes
from gpu_device_plugin.cdi.options import CdiOptions, Roots
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.hardware.model import Inventory


@dataclass(frozen=True, slots=True)
class Scan:
    """One generation's inputs, with the file trees opened."""

    options: CdiOptions
    inventory: Inventory
    system: System
    roots: Roots
    driver: Root
    """The driver's files."""
    dev: Root
    """The root whose ``/dev`` has the device nodes."""
    host: Root
    """The plugin's own root, for ``/proc`` and ``/sys``."""
    libraries: Libraries
    hooks: Hooks
    notes: Notes = field(default_factory=Notes)

    @classmethod
    def of(cls, options: CdiOptions, inventory: Inventory, system: System) -> Scan:
        """Opens the trees that the options name."""
        notes = Notes()
        roots = Roots.of(options)
        trees = {path: Root(path, system) for path in {roots.driver, roots.dev, "/"}}
        for name in sorted(options.disabled_hooks - KNOWN - {ALL, ""}):
            notes.warn(f"disabled hook {name!r} is not one that is known")
        return cls(
            options=options,
            inventory=inventory,
            system=system,
            roots=roots,
            driver=trees[roots.driver],
            dev=trees[roots.dev],
            host=trees["/"],
            libraries=Libraries(trees[roots.driver], notes),
            hooks=Hooks(options.hook_path, options.disabled_hooks),
            notes=notes,
        )

    def leaves_out(self, index: object) -> bool:
        """Whether the GPU (``3``) or MIG device (``3:1``) is not to be described."""
        return str(index) in self.options.left_out

    @property
    def leaves_out_all(self) -> bool:
        """Whether there are GPUs, none of which is to be described."""
        found = list(self.inventory.indices())
        return bool(found) and all(map(self.leaves_out, found))

    def flag(self, name: str) -> bool:
        """Whether a feature flag is set."""
        return name in self.options.feature_flags
