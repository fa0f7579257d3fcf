"""Makes a node ready to be served: configuration, hardware, plan. Everything here may block."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import AllocationPolicy, Config
from gpu_device_plugin.config.render import render
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.errors import HardwareError, InitError, UnwritableError, UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Gpu, Inventory
from gpu_device_plugin.hardware.roots import find_dev_root
from gpu_device_plugin.imex import ImexChannel, find_channels
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.response import AllocationSettings, Injector
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Plan, Resource
from gpu_device_plugin.resources.plan import make_plan
from gpu_device_plugin.storage import PASSING, remedy, write_error

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """All that is needed to serve a node."""

    loaded: Loaded
    """The configuration, without the resources that follow from the hardware."""
    backend: Backend
    inventory: Inventory | None
    """None if the driver cannot be used and waiting is allowed."""
    plan: Plan
    settings: AllocationSettings
    needs_mps: bool = False
    """Whether shared resources wait for MPS daemons."""
    init_problem: str = ""
    plan_problem: str = ""
    """Why nothing is offered although the GPUs can be read; empty if that is not so."""
    problem_is_over: Callable[[], bool] | None = None
    """Whether what keeps the node from being offered as it is, or a part of it, has passed by itself,
    which may block; None if nothing does, or only a change can mend it."""
    written: Node | None = None
    """The node that the specifications on the disk describe; None if it is this one."""

    @property
    def config(self) -> Config:
        """As it was loaded."""
        return self.loaded.config

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs of the node."""
        return () if self.inventory is None else self.inventory.gpus

    @property
    def policy(self) -> AllocationPolicy:
        """How replicas are preferred."""
        given = self.config.flags.plugin.shared_devices_allocation_policy
        return AllocationPolicy(given) if given else AllocationPolicy.DISTRIBUTED


@dataclass(frozen=True, slots=True)
class NodeReader:
    """Reads configuration and hardware, anew at every start and reload."""

    load_config: Callable[[], Loaded]
    open_backend: Callable[[Config], Backend]
    cdi: CdiSettings

    def configure(self) -> tuple[Loaded, Backend]:
        """The validated configuration and the backend that it asks for.

        Raises:
            ConfigError: the configuration cannot be used.
        """
        loaded = self.load_config()
        backend = self.open_backend(loaded.config)
        validate_plugin(loaded.config, backend.is_loadable, loaded.origins)
        return loaded, backend

    def read(
        self,
        loaded: Loaded,
        backend: Backend,
        known: Inventory | None = None,
        *,
        must_fit: bool = True,
    ) -> Node:
        """Reads the hardware and plans what it offers.

        Args:
            loaded: as `configure` gave it.
            backend: as `configure` gave it.
            known: what was read before; GPUs that cannot be read any more are kept from it.
            must_fit: whether it is an error if the GPUs cannot be offered as configured; else
                nothing is offered.

        Raises:
            HardwareError: the driver cannot be used (unless `failOnInitError` is false), or the
                GPUs cannot be offered as configured.
            ConfigError: the configuration does not fit the hardware.
            UnwritableError: the CDI specifications cannot be written for now.
        """
        config = loaded.config
        problem: InitError | None = None
        inventory: Inventory | None = None
        try:
            inventory = backend.read().keeping_lost(known)
        except InitError as error:
            problem = error
        expanded = with_default_resources(config, inventory)
        log.info("running with configuration:\n%s", render(expanded))
        if problem is not None and config.flags.fail_on_init_error:
            raise problem
        if inventory is None:
            if must_fit and known is None:
                # At the start a channel that is missing is an error, driver or not, as in v0.19.3.
                _find_channels(config)
            return Node(
                loaded=loaded,
                backend=backend,
                inventory=None,
                plan=Plan(),
                settings=AllocationSettings.of(expanded),
                init_problem=str(problem),
            )
        if must_fit:
            return self.plan(loaded, backend, inventory)
        return self.plan_or_nothing(loaded, backend, inventory)

    def plan_anew(self, before: Node, inventory: Inventory) -> Node:
        """Plans what changed hardware offers, as `plan_or_nothing`.

        While specifications cannot be written, those on the disk go on to describe what was there
        when they were: of that, what is there now is offered.
        """
        loaded, backend = before.loaded, before.backend
        written = before.written or before
        try:
            return self.plan(loaded, backend, inventory)
        except UnwritableError as error:
            if not written.plan.resources:
                return _nothing(loaded, backend, inventory, error)
            log.error("%s; what was offered before and is still there is offered meanwhile", error)
            plan = make_plan(with_default_resources(loaded.config, inventory), inventory)
            return replace(
                written,
                inventory=inventory,
                plan=replace(plan, resources=_kept(written.plan, plan)),
                problem_is_over=error.is_over,
                written=written,
            )
        except UserError as error:
            return replace(_nothing(loaded, backend, inventory, error), written=written)

    def plan_or_nothing(self, loaded: Loaded, backend: Backend, inventory: Inventory) -> Node:
        """Plans what an inventory offers; nothing if it cannot be offered as configured."""
        try:
            return self.plan(loaded, backend, inventory)
        except UserError as error:
            return _nothing(loaded, backend, inventory, error)

    def plan(self, loaded: Loaded, backend: Backend, inventory: Inventory) -> Node:
        """Plans what an inventory offers, and writes the CDI specifications for it.

        Raises:
            HardwareError: the GPUs cannot be offered as configured.
            ConfigError: the configuration does not fit the hardware.
            UnwritableError: the specifications cannot be written for now.
        """
        config = loaded.config
        expanded = with_default_resources(config, inventory)
        channels = _find_channels(config)
        plan = make_plan(expanded, inventory)
        for warning in plan.warnings:
            log.warning("%s", warning)
        # All that may be refused is, before anything is written: the disk has what is offered.
        needs_mps = _uses_mps(expanded, inventory, plan)
        injectors = tuple[Injector, ...]()
        if config.uses_cdi():
            injectors += (_set_up_cdi(config, self.cdi, inventory, plan, channels),)
        if needs_mps:
            injectors += (_mps_injector(expanded),)
        return Node(
            loaded=loaded,
            backend=backend,
            inventory=inventory,
            plan=plan,
            settings=AllocationSettings.of(expanded, channels, injectors),
            needs_mps=needs_mps,
        )


def _nothing(loaded: Loaded, backend: Backend, inventory: Inventory, error: UserError) -> Node:
    """A node that offers nothing.

    What is gone must not be offered any longer, whatever is wrong with the rest.
    """
    log.error("nothing is offered until this is mended: %s", error)
    return Node(
        loaded=loaded,
        backend=backend,
        inventory=inventory,
        plan=Plan(),
        settings=AllocationSettings.of(loaded.config),
        plan_problem=str(error),
        problem_is_over=error.is_over if isinstance(error, UnwritableError) else None,
    )


def _kept(before: Plan, now: Plan) -> tuple[Resource, ...]:
    """The resources of a plan with those devices only that another one has under the same names."""
    known = {(r.name, d.id, d.index) for r in before.resources for d in r.devices}
    kept = (
        replace(r, devices=tuple(d for d in r.devices if (r.name, d.id, d.index) in known))
        for r in now.resources
    )
    return tuple(resource for resource in kept if resource.devices)


def check_fit(loaded: Loaded, backend: Backend, inventory: Inventory | None) -> None:
    """Looks whether a configuration could be applied; nothing is changed by that.

    Args:
        loaded: the configuration.
        backend: that it asks for.
        inventory: what it would have to fit; None if that is not known.

    Raises:
        ConfigError: the configuration cannot be used, or does not fit the hardware.
        HardwareError: the GPUs cannot be offered as configured.
    """
    config = loaded.config
    validate_plugin(config, backend.is_loadable, loaded.origins)
    if inventory is None:
        return
    expanded = with_default_resources(config, inventory)
    _find_channels(config)
    _uses_mps(expanded, inventory, make_plan(expanded, inventory))


def _find_channels(config: Config) -> tuple[ImexChannel, ...]:
    """Raises ConfigError if one is missing that is required."""
    return find_channels(config.imex.channel_ids, _dev_root(config), required=config.imex.required)


def _uses_mps(config: Config, inventory: Inventory, plan: Plan) -> bool:
    if not config.uses_mps():
        return False
    from gpu_device_plugin.mps.plan import refuse_impossible  # noqa: PLC0415 - only if used

    # How many clients a GPU takes is for mps-control-daemon to say.
    refuse_impossible(config, inventory, plan, count_clients=False)
    return True


def _mps_injector(config: Config) -> Injector:
    from gpu_device_plugin.plugin.mps import mps_injector  # noqa: PLC0415 - only where it is used

    return mps_injector(config)


def _set_up_cdi(
    config: Config,
    settings: CdiSettings,
    inventory: Inventory,
    plan: Plan,
    channels: tuple[ImexChannel, ...],
) -> Injector:
    from gpu_device_plugin.plugin.cdi import set_up_cdi  # noqa: PLC0415 - only where it is used

    try:
        return set_up_cdi(config, settings, inventory, plan, channels)
    except OSError as error:
        message = f"CDI specifications cannot be written: {error}"
        if error.errno not in PASSING:
            raise HardwareError(message) from None
        where = settings.directory
        hint = remedy(error, where)
        raise UnwritableError(message, hint, lambda: write_error(where) is None) from None


def _dev_root(config: Config) -> str:
    return find_dev_root(config.flags.plugin.container_driver_root or "/")
