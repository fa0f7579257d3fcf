"""Checks of a merged configuration, before anything is started.

Each error names the setting with its flags, variables and key, the bad value, and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable

from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.model import Config, MigStrategy, SharingStrategy
from gpu_device_plugin.config.options import PROGRAMS, Option, Program
from gpu_device_plugin.config.text import choices, quote
from gpu_device_plugin.errors import ConfigError, UsageError


def validate_plugin(config: Config, nvml_loadable: Callable[[], bool]) -> None:
    """Checks what nvidia-device-plugin cannot work with.

    The order is that of k8s-device-plugin v0.19.3 (cmd/nvidia-device-plugin, validateFlags).

    Args:
        config: merged from all sources.
        nvml_loadable: whether the NVML library can be opened; asked only if CDI is in use.

    Raises:
        ConfigError: names what is wrong first.
    """
    flags = config.flags
    program = Program.DEVICE_PLUGIN
    for strategy in flags.plugin.device_list_strategy or ():
        _check(program, "device-list-strategy", strategy)
    if config.uses_cdi() and not nvml_loadable():
        raise _error(
            program,
            "device-list-strategy",
            "CDI needs the NVML library, which cannot be opened",
            "use envvar or volume-mounts, or see to it that libnvidia-ml.so.1 is found below "
            f"{flags.plugin.container_driver_root or '/'}",
        )
    _check(program, "device-id-strategy", flags.plugin.device_id_strategy)
    _check(
        program, "shared-devices-allocation-policy", flags.plugin.shared_devices_allocation_policy
    )
    _check_mps(config)
    _check(program, "device-discovery-strategy", flags.device_discovery_strategy)
    _check(program, "mig-strategy", flags.mig_strategy)
    if config.imex.channel_ids not in {(), (0,)}:
        ids = ", ".join(map(str, config.imex.channel_ids))
        raise _error(program, "imex-channel-ids", f"[{ids}] is not allowed", "allowed: none, or 0")


def _check_mps(config: Config) -> None:
    """As for `sharing.mps`; beside single GPUs with MPS others may well be cut into MIG devices."""
    if not config.uses_mps():
        return
    whole_node = config.sharing.strategy is SharingStrategy.MPS
    if whole_node and config.flags.mig_strategy == MigStrategy.MIXED:
        raise _error(
            Program.DEVICE_PLUGIN,
            "mig-strategy",
            "mixed cannot be combined with sharing.mps",
            "allowed with MPS: none, single",
        )
    if not config.flags.mps_root:
        raise _error(
            Program.DEVICE_PLUGIN,
            "mps-root",
            f"required by {'sharing.mps' if whole_node else 'extensions.sharing'}, but empty",
            "the directory of mps-control-daemon on the host, by default /run/nvidia/mps",
        )


def validate_labels(config: Config, parsed: Parsed) -> None:
    """Checks what gpu-feature-discovery cannot work with.

    As in k8s-device-plugin v0.19.3, the MIG strategy is not looked at before a device is found;
    see `validate_mig_strategy`. DEVIATION: there a missing name of the node is noticed only by
    the Kubernetes API.

    Raises:
        ConfigError: a setting has a value that is not allowed, or is missing.
    """
    program = Program.GPU_FEATURE_DISCOVERY
    _check(program, "device-discovery-strategy", config.flags.device_discovery_strategy)
    if config.flags.use_node_feature_api and not parsed.text("node-name"):
        raise _error(
            program,
            "node-name",
            "required to publish NodeFeature objects, but empty",
            "or turn off --use-node-feature-api",
        )


def validate_mig_strategy(config: Config) -> None:
    """Checks the MIG strategy; raises ConfigError if it is not one."""
    _check(Program.GPU_FEATURE_DISCOVERY, "mig-strategy", config.flags.mig_strategy)


def validate_manager(parsed: Parsed) -> None:
    """Checks that config-manager has been told all it must know.

    Raises:
        UsageError: names the first option that is missing.
    """
    for name in ("node-name", "node-label", "config-file-srcdir", "config-file-dst"):
        if not parsed.text(name):
            option = PROGRAMS[Program.CONFIG_MANAGER].option(name)
            raise UsageError(
                f"invalid {name}: must not be empty", f"set {choices(option.settings)}"
            )


def _check(program: Program, name: str, value: str | None) -> None:
    """Raises ConfigError if the option has a value, and that is not one of the allowed ones."""
    option = PROGRAMS[program].option(name)
    if value is not None and value not in option.allowed:
        raise _error(
            program,
            name,
            f"{quote(value)} is not allowed",
            f"allowed: {', '.join(option.allowed)}",
        )


def _error(program: Program, name: str, what: str, hint: str) -> ConfigError:
    option: Option = PROGRAMS[program].option(name)
    return ConfigError(f"{name}: {what}", f"{hint}; set by {choices(option.settings)}")
