"""Reads what the node needs: configuration, hardware, daemons. Everything here may block."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from gpu_device_plugin.config.model import Config, MigStrategy
from gpu_device_plugin.config.render import render
from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.mps.client_limits import find_limits
from gpu_device_plugin.mps.plan import plan_daemons
from gpu_device_plugin.mps.supervisor import Wanted
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.plan import make_plan

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DaemonReader:
    """Reads configuration and hardware, anew at every start and reload."""

    load_config: Callable[[], Config]
    open_backend: Callable[[Config], Backend]

    def read(self) -> Wanted:
        """The daemons that the node needs; without MPS the driver is not touched.

        Raises:
            ConfigError: the configuration cannot be used, or does not fit the hardware.
            HardwareError: the driver cannot be used (unless `failOnInitError` is false), or the
                GPUs cannot be shared through MPS.
        """
        config = self.load_config()
        if not config.uses_mps():
            log.info("running with configuration:\n%s", render(config))
            return Wanted()
        _check_strategy(config)
        try:
            inventory = self.open_backend(config).read()
        except InitError as error:
            if config.flags.fail_on_init_error is False:
                return Wanted(problem=str(error))
            raise
        config = with_default_resources(config, inventory)
        log.info("running with configuration:\n%s", render(config))
        plan = make_plan(config, inventory)
        warnings = list(plan.warnings)
        limits = find_limits(config, inventory, plan, warnings)
        for warning in warnings:
            log.warning("%s", warning)
        return Wanted(plan_daemons(config, inventory, plan, limits))


def _check_strategy(config: Config) -> None:
    allowed = [strategy.value for strategy in MigStrategy]
    if config.flags.mig_strategy not in allowed:
        raise ConfigError(
            f"mig-strategy: {config.flags.mig_strategy!r} is not allowed",
            f"allowed: {', '.join(allowed)}; set by --mig-strategy, MIG_STRATEGY, "
            "flags.migStrategy",
        )
