"""Specifications for a node: the façade of this package.

Everything is a function of options, inventory and files; no driver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from gpu_device_plugin.cdi.draft import Draft, Dropped
from gpu_device_plugin.cdi.gated import DEVICE, MODES, gated_draft, is_enabled
from gpu_device_plugin.cdi.hooks import ALL
from gpu_device_plugin.cdi.imex import imex_draft
from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.cdi.names import CdiClass, qualified_name
from gpu_device_plugin.cdi.nvml import nvml_draft
from gpu_device_plugin.cdi.options import CdiOptions
from gpu_device_plugin.cdi.scan import Scan
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.cdi.tegra import tegra_draft
from gpu_device_plugin.cdi.transform import simplify, to_host
from gpu_device_plugin.cdi.validate import validate
from gpu_device_plugin.cdi.version import BASELINE, minimum_version
from gpu_device_plugin.cdi.wsl import wsl_draft
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.model import Inventory, Platform


@dataclass(frozen=True, slots=True)
class ClassResult:
    """What became of one class of devices."""

    cls: CdiClass
    spec: Spec | None
    reason: str = ""
    """Why there is no specification; empty if there is one."""


@dataclass(frozen=True, slots=True)
class GeneratedSpecs:
    """The outcome of one generation."""

    vendor: str
    classes: tuple[ClassResult, ...]
    """Every class that was asked for, ``gpu`` first."""
    warnings: tuple[str, ...] = ()
    """Files that are missing, most of which containers can do without."""
    problems: tuple[str, ...] = ()
    """Devices that are left out or will not work, each with the reason."""

    @property
    def specs(self) -> tuple[Spec, ...]:
        """The specifications to write."""
        return tuple(result.spec for result in self.classes if result.spec is not None)

    def spec(self, cls: CdiClass) -> Spec | None:
        """The specification of a class, None if it was dropped or not asked for."""
        return next((result.spec for result in self.classes if result.cls is cls), None)


def generate(
    options: CdiOptions, inventory: Inventory, system: System | None = None
) -> GeneratedSpecs:
    """Makes the specifications of all classes that the options ask for.

    Args:
        options: what the operator chose.
        inventory: the node's GPUs.
        system: the machine; by default that on which this process runs.

    Raises:
        HardwareError: there is no GPU to describe, the driver's files are not below the driver
            root or not of the running driver, or it does not list its MIG capabilities.
        ConfigError: the options cannot lead to a specification that runtimes accept.
    """
    if not options.hook_path and ALL not in options.disabled_hooks:
        raise ConfigError("the path of the CDI hook program is empty", "--nvidia-cdi-hook-path")
    scan = Scan.of(options, inventory, system or System.current())
    results = tuple(_result(scan, cls, make) for cls, make in _makers(scan).items())
    return GeneratedSpecs(
        options.vendor, results, warnings=scan.notes.warnings, problems=scan.notes.problems
    )


def additional_devices(specs: GeneratedSpecs) -> list[str]:
    """Qualified names that every container gets beside its GPUs: of GDRCopy, GDS and MOFED."""
    return [
        qualified_name(mode, DEVICE, specs.vendor) for mode in MODES if specs.spec(mode) is not None
    ]


def missing_names(specs: GeneratedSpecs, device_ids: Iterable[str]) -> list[str]:
    """Qualified names of GPUs that Allocate would hand out and no runtime could resolve.

    Args:
        specs: what was generated.
        device_ids: UUIDs or indices, as the options name devices; without replica numbers.
    """
    known = {name for spec in specs.specs for name in spec.names}
    wanted = (qualified_name(CdiClass.GPU, device, specs.vendor) for device in device_ids)
    return [name for name in dict.fromkeys(wanted) if name not in known]


def _makers(scan: Scan) -> dict[CdiClass, Callable[[], Draft | Dropped]]:
    """The generators of the classes that are wanted."""
    gpu = {Platform.TEGRA: tegra_draft, Platform.WSL: wsl_draft}.get(
        scan.options.platform or scan.inventory.platform, nvml_draft
    )
    makers: dict[CdiClass, Callable[[], Draft | Dropped]] = {CdiClass.GPU: partial(gpu, scan)}
    if scan.options.imex_channels:
        makers[CdiClass.IMEX] = partial(imex_draft, scan)
    for mode in MODES:
        if is_enabled(scan, mode):
            makers[mode] = partial(gated_draft, scan, mode)
    return makers


def _result(scan: Scan, cls: CdiClass, make: Callable[[], Draft | Dropped]) -> ClassResult:
    draft = make()
    if isinstance(draft, Dropped):
        return ClassResult(cls, None, draft.reason)
    done = to_host(simplify(draft), scan.roots)
    kind = f"{scan.options.vendor}/{cls}"
    spec = Spec(BASELINE, kind, done.devices, done.edits)
    spec = Spec(minimum_version(spec), kind, done.devices, done.edits)
    validate(spec)
    return ClassResult(cls, spec)
