"""Checks of a merged configuration, before anything is started.

Each error is one line that names what set the value (flag, variable or line of the file), the bad
value, and what is allowed. Where nothing did, or that is not known, every way to set it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place, raise_first
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.model import (
    Config,
    DeviceListStrategy,
    MigStrategy,
    SharingStrategy,
)
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.text import choices, quote
from gpu_device_plugin.errors import ConfigError, UsageError

Origins = Mapping[str, Place]
"""What set an option, by its key of the file, as `load.Loaded` has it."""

_UNKNOWN: Origins = {}
_CDI = frozenset(strategy for strategy in DeviceListStrategy if strategy.is_cdi)


def validate_plugin(
    config: Config, nvml_loadable: Callable[[], bool], origins: Origins = _UNKNOWN
) -> None:
    """Checks what nvidia-device-plugin cannot work with.

    Args:
        config: merged from all sources.
        nvml_loadable: whether the NVML library can be opened; asked only if CDI is in use.
        origins: what set the options.

    Raises:
        ConfigError: names what is wrong first.
    """
    raise_first(problems_for_plugin(config, nvml_loadable, origins))


def problems_for_plugin(
    config: Config, nvml_loadable: Callable[[], bool], origins: Origins = _UNKNOWN
) -> Iterator[ConfigError]:
    """What nvidia-device-plugin cannot work with; see `validate_plugin`.

    The order is that of k8s-device-plugin v0.19.3 (cmd/nvidia-device-plugin, validateFlags).
    """
    flags = config.flags
    checks = _Checks(Program.DEVICE_PLUGIN, origins)
    strategies = flags.plugin.device_list_strategy or ()
    for strategy in strategies:
        yield from checks.allow("device-list-strategy", strategy)
    if any(strategy in _CDI for strategy in strategies) and not nvml_loadable():
        yield checks.error(
            "device-list-strategy",
            "CDI needs the NVML library, which cannot be opened",
            "use envvar or volume-mounts, or see to it that libnvidia-ml.so.1 is found below "
            f"{flags.plugin.container_driver_root or '/'}",
        )
    policy = flags.plugin.shared_devices_allocation_policy
    yield from checks.allow("device-id-strategy", flags.plugin.device_id_strategy)
    yield from checks.allow("shared-devices-allocation-policy", policy)
    yield from _problems_of_mps(config, checks)
    yield from checks.allow("device-discovery-strategy", flags.device_discovery_strategy)
    yield from checks.allow("mig-strategy", flags.mig_strategy)
    if config.imex.channel_ids not in {(), (0,)}:
        ids = ", ".join(map(str, config.imex.channel_ids))
        yield checks.error("imex-channel-ids", f"[{ids}] is not allowed", "allowed: none, or 0")


def _problems_of_mps(config: Config, checks: _Checks) -> Iterator[ConfigError]:
    """As for `sharing.mps`; beside single GPUs with MPS others may well be cut into MIG devices."""
    if not config.uses_mps():
        return
    whole_node = config.sharing.strategy is SharingStrategy.MPS
    if whole_node and config.flags.mig_strategy == MigStrategy.MIXED:
        yield checks.error(
            "mig-strategy",
            "mixed cannot be combined with sharing.mps",
            "allowed with MPS: none, single",
        )
    if not config.flags.mps_root:
        yield checks.error(
            "mps-root",
            f"required by {'sharing.mps' if whole_node else 'extensions.sharing'}, but empty",
            "the directory of mps-control-daemon on the host, by default /run/nvidia/mps",
        )


def validate_labels(config: Config, parsed: Parsed, origins: Origins = _UNKNOWN) -> None:
    """Checks what gpu-feature-discovery cannot work with.

    Raises:
        ConfigError: a setting has a value that is not allowed, or is missing.
    """
    raise_first(problems_for_labels(config, parsed, origins))


def problems_for_labels(
    config: Config, parsed: Parsed, origins: Origins = _UNKNOWN
) -> Iterator[ConfigError]:
    """What gpu-feature-discovery cannot work with; see `validate_labels`.

    As in k8s-device-plugin v0.19.3, the MIG strategy is not looked at before a device is found;
    see `validate_mig_strategy`. DEVIATION: there a missing name of the node is noticed only by
    the Kubernetes API.
    """
    if "node-name" in parsed.origins:
        origins = {**origins, "node-name": Place(path=parsed.origins["node-name"])}
    checks = _Checks(Program.GPU_FEATURE_DISCOVERY, origins)
    strategy = config.flags.device_discovery_strategy
    yield from checks.allow("device-discovery-strategy", strategy)
    if config.flags.use_node_feature_api and not parsed.text("node-name"):
        yield checks.error(
            "node-name",
            "required to publish NodeFeature objects, but empty",
            "or turn off --use-node-feature-api",
        )


def validate_mig_strategy(config: Config, origins: Origins = _UNKNOWN) -> None:
    """Checks the MIG strategy; raises ConfigError if it is not one."""
    checks = _Checks(Program.GPU_FEATURE_DISCOVERY, origins)
    raise_first(checks.allow("mig-strategy", config.flags.mig_strategy))


def validate_manager(parsed: Parsed) -> None:
    """Checks that config-manager has been told all it must know.

    Raises:
        UsageError: names the first option that is missing.
    """
    raise_first(problems_for_manager(parsed))


def problems_for_manager(parsed: Parsed) -> Iterator[UsageError]:
    """Each option that config-manager cannot do without and that is missing."""
    for name in ("node-name", "node-label", "config-file-srcdir", "config-file-dst"):
        if not parsed.text(name):
            option = PROGRAMS[Program.CONFIG_MANAGER].option(name)
            yield UsageError(
                f"invalid {name}: must not be empty", f"set {choices(option.settings)}"
            )


def validate_agent(parsed: Parsed) -> None:
    """Checks that gpu-node agent has been told all it must know to follow a label.

    Unlike in config-manager, a fallback strategy that is none is an error even if it is not
    reached.

    Raises:
        UsageError: names the first option that is missing or wrong.
    """
    raise_first(problems_for_agent(parsed))
    if not parsed.text("config-file-srcdir"):
        return
    option = PROGRAMS[Program.AGENT].option("fallback-strategies")
    for strategy in parsed.strings(option.name):
        if strategy not in option.allowed:
            raise UsageError(
                f"invalid {option.name}: {quote(strategy)} is not one",
                f"allowed: {', '.join(option.allowed)}; set by {choices(option.settings)}",
            )


def problems_for_agent(parsed: Parsed) -> Iterator[UsageError]:
    """Each option that gpu-node agent cannot follow a label without and that is missing."""
    if not parsed.text("config-file-srcdir"):
        return
    for name in ("node-name", "node-label"):
        if not parsed.text(name):
            option = PROGRAMS[Program.AGENT].option(name)
            yield UsageError(
                f"invalid {name}: must not be empty where --config-file-srcdir "
                "(CONFIG_FILE_SRCDIR) is set",
                f"set {choices(option.settings)}",
            )


@dataclass(frozen=True, slots=True)
class _Checks:
    """Makes the errors of one program."""

    program: Program
    origins: Origins
    """By the key of the file; by the name of the option where it has no key."""

    def allow(self, name: str, value: str | None) -> Iterator[ConfigError]:
        """The error if the option has a value, and that is none of the allowed ones."""
        allowed = PROGRAMS[self.program].option(name).allowed
        if value is not None and value not in allowed:
            yield self.error(
                name, f"{quote(value)} is not allowed", f"allowed: {', '.join(allowed)}"
            )

    def error(self, name: str, what: str, hint: str) -> ConfigError:
        """The error that the value of an option is wrong."""
        option = PROGRAMS[self.program].option(name)
        origin = self.origins.get(option.config_path or name)
        if origin is not None:
            return origin.error(what, hint)
        return ConfigError(f"{name}: {what}", f"{hint}; set by {choices(option.settings)}")
