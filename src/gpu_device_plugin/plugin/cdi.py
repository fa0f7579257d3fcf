"""CDI in the plugin: the specifications it writes, and the names that Allocate hands out."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_device_plugin.cdi.generate import (
    GeneratedSpecs,
    additional_devices,
    generate,
    missing_names,
)
from gpu_device_plugin.cdi.names import (
    CdiClass,
    annotation,
    check_annotation_prefix,
    qualified_name,
)
from gpu_device_plugin.cdi.options import CdiOptions, Naming
from gpu_device_plugin.cdi.writer import Action, write_specs
from gpu_device_plugin.config.model import Config, DeviceListStrategy, MigStrategy
from gpu_device_plugin.hardware.model import Inventory, Platform
from gpu_device_plugin.hardware.roots import find_dev_root
from gpu_device_plugin.imex import ImexChannel
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.resources.model import Plan, Resource
from gpu_device_plugin.resources.selection import left_out

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CdiInjector:
    """Names devices in annotations, in the CRI's own field, or both."""

    in_annotations: bool
    in_cri: bool
    prefix: str
    others: tuple[str, ...] = ()
    """Qualified names of channels and features that every container gets."""

    def inject(
        self,
        response: pb.ContainerAllocateResponse,
        resource: Resource,  # noqa: ARG002 - names do not depend on it
        names: Sequence[str],
    ) -> None:
        """Adds the names; raises RequestError where one cannot be an annotation."""
        qualified = [*(qualified_name(CdiClass.GPU, name) for name in names), *self.others]
        if not qualified:
            return
        if self.in_annotations:
            key, value = annotation(str(uuid.uuid4()), qualified, self.prefix)
            response.annotations[key] = value
        if self.in_cri:
            for name in qualified:
                response.cdi_devices.add(name=name)


def set_up_cdi(
    config: Config,
    settings: CdiSettings,
    inventory: Inventory,
    plan: Plan,
    channels: tuple[ImexChannel, ...],
) -> CdiInjector:
    """Writes the specifications and checks that they hold every name to be handed out.

    Raises:
        HardwareError: the GPUs cannot be described.
        ConfigError: the options lead to no valid specification.
        UnwritableError: the specifications cannot be written for now.
        OSError: the specifications cannot be written.
    """
    plugin = config.flags.plugin
    check_annotation_prefix(plugin.cdi_annotation_prefix or "")
    specs = generate(cdi_options(config, settings, inventory, channels), inventory)
    _report(specs)
    for outcome in write_specs(specs, settings.directory):
        level = logging.WARNING if outcome.action is Action.LEFT else logging.INFO
        log.log(level, "CDI: %s", outcome)
    _check_names(config, specs, plan)
    return cdi_injector(config, channels, additional_devices(specs))


def cdi_injector(
    config: Config, channels: tuple[ImexChannel, ...], features: Iterable[str] = ()
) -> CdiInjector:
    """The injector of a validated configuration.

    Args:
        config: says where names go.
        channels: those that every container gets.
        features: qualified names of what else every container gets.
    """
    strategies = config.device_list_strategies
    return CdiInjector(
        in_annotations=DeviceListStrategy.CDI_ANNOTATIONS in strategies,
        in_cri=DeviceListStrategy.CDI_CRI in strategies,
        prefix=config.flags.plugin.cdi_annotation_prefix or "",
        others=(*(qualified_name(CdiClass.IMEX, channel.id) for channel in channels), *features),
    )


def cdi_options(
    config: Config,
    settings: CdiSettings,
    inventory: Inventory,
    channels: tuple[ImexChannel, ...],
) -> CdiOptions:
    """The generator's options for a validated configuration."""
    flags = config.flags
    driver_root = flags.plugin.container_driver_root or "/"
    return CdiOptions(
        driver_root=driver_root,
        dev_root=find_dev_root(driver_root),
        target_driver_root=flags.nvidia_driver_root or "",
        target_dev_root=flags.nvidia_dev_root or "",
        hook_path=flags.plugin.nvidia_ctk_path or "",
        naming=Naming.parse(flags.plugin.device_id_strategy or ""),
        gdrcopy=bool(flags.gdrcopy_enabled),
        gds=bool(flags.gds_enabled),
        mofed=bool(flags.mofed_enabled),
        imex_channels=channels,
        feature_flags=frozenset(settings.feature_flags),
        disabled_hooks=frozenset(settings.disabled_hooks),
        whole_mig_gpus=flags.mig_strategy == MigStrategy.NONE,
        left_out=left_out(config, inventory),
        tegra=inventory.platform is Platform.TEGRA,
        # As in the original a discovery strategy decides over devices only, not over this.
        platform=inventory.detected,
    )


def _report(specs: GeneratedSpecs) -> None:
    if specs.warnings:
        log.info("CDI: %d optional driver files are not there", len(specs.warnings))
    for warning in specs.warnings:
        log.debug("CDI: %s", warning)
    for problem in specs.problems:
        log.error("CDI: %s", problem)
    for result in specs.classes:
        if result.spec is None:
            log.warning("CDI: no specification for %s: %s", result.cls, result.reason)


def _check_names(config: Config, specs: GeneratedSpecs, plan: Plan) -> None:
    by_index = config.names_by_index()
    for resource in plan.resources:
        names = [device.name(by_index=by_index) for device in resource.devices]
        for missing in missing_names(specs, names):
            log.error(
                "CDI: no specification holds %s: containers that get it will not start resource=%s",
                missing,
                resource.name,
            )
