"""The CDI specifications that the plugin would write now, made by the plugin's own steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpu_device_plugin.cdi.generate import GeneratedSpecs, generate, missing_names
from gpu_device_plugin.cdi.names import CdiClass, check_annotation_prefix
from gpu_device_plugin.config.model import Config, DeviceIdStrategy, DeviceListStrategy
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.roots import find_dev_root
from gpu_device_plugin.imex import find_channels
from gpu_device_plugin.plugin.cdi import cdi_options
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.resources.plan import plan_node


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be written, and what would be said about it."""

    specs: GeneratedSpecs
    unresolvable: tuple[str, ...] = ()
    """Devices that Allocate would hand out and no specification holds."""
    unused: bool = False
    """No strategy of the configuration uses CDI: the plugin would write nothing."""

    def errors(self) -> Iterator[str]:
        """What keeps devices out of containers."""
        yield from self.specs.problems
        for result in self.specs.classes:
            if result.spec is None and result.cls is CdiClass.GPU:
                yield f"no specification for {result.cls}: {result.reason}"
                return
        for name in self.unresolvable:
            yield f"no specification holds {name}: containers that get it will not start"

    def warnings(self) -> Iterator[str]:
        """What containers go without."""
        for result in self.specs.classes:
            if result.spec is None and result.cls is not CdiClass.GPU:
                yield f"no specification for {result.cls}: {result.reason}"

    def missing_files(self) -> tuple[str, ...]:
        """Files that were looked for and that most containers can do without."""
        return self.specs.warnings


def make_preview(config: Config, settings: CdiSettings, backend: Backend) -> Preview:
    """Reads the node and makes the specifications, as the plugin does at its start.

    Raises:
        ConfigError: the configuration cannot be used, or leads to no valid specification.
        HardwareError: the driver cannot be used, or the GPUs cannot be described.
    """
    validate_plugin(config, backend.is_loadable)
    unused = not config.uses_cdi()
    config = _with_cdi(config)
    validate_plugin(config, backend.is_loadable)  # whether CDI can be used at all
    inventory = backend.read()
    dev_root = find_dev_root(config.flags.plugin.container_driver_root or "/")
    channels = find_channels(config.imex.channel_ids, dev_root, required=config.imex.required)
    plan = plan_node(config, inventory)
    check_annotation_prefix(config.flags.plugin.cdi_annotation_prefix or "")
    specs = generate(cdi_options(config, settings, inventory, channels), inventory)
    return Preview(specs, tuple(missing_names(specs, _names(config, plan))), unused)


def _with_cdi(config: Config) -> Config:
    """The configuration with a strategy that needs specifications."""
    if config.uses_cdi():
        return config
    plugin = replace(config.flags.plugin, device_list_strategy=(str(DeviceListStrategy.CDI_CRI),))
    return replace(config, flags=replace(config.flags, plugin=plugin))


def _names(config: Config, plan: Plan) -> Iterator[str]:
    by_index = config.flags.plugin.device_id_strategy == DeviceIdStrategy.INDEX
    for resource in plan.resources:
        for device in resource.devices:
            yield device.index if by_index else device.id
