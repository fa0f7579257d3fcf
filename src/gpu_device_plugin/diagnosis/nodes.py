"""Whether a configuration works on a node, real or simulated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import Loaded, load
from gpu_device_plugin.config.model import Config, MigStrategy
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.patterns import matches
from gpu_device_plugin.diagnosis.configurations import SOMEWHERE
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.sources import Source
from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.model import Inventory
from gpu_device_plugin.mps.client_limits import find_limits
from gpu_device_plugin.mps.plan import plan_daemons
from gpu_device_plugin.resources.defaults import with_default_resources
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.resources.plan import make_plan

HARDWARE = "hardware"
"""The name of this node, as against simulated ones."""

_KEY = re.compile(
    r"((?:flags|resources|sharing|imex|extensions)[A-Za-z.\[\]0-9]*): (.*)", re.DOTALL
)

_ABOUT = re.compile(r"(?:(?:sharing|replicas) of )?(nvidia\.com/[a-z0-9.-]*[a-z0-9])")
"""The resource that a message begins with."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that was read."""

    name: str
    inventory: Inventory


def open_backend(name: str, config: Config | None = None) -> Backend:
    """The hardware of a node.

    Args:
        name: `HARDWARE`, a built-in profile, or the path of a YAML file.
        config: says how real hardware is found.

    Raises:
        UserError: there is no such profile.
    """
    if name != HARDWARE:
        from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend  # noqa: PLC0415 - seldom

        return SimulatedBackend.from_profile(name)
    from gpu_device_plugin.hardware.discover import discover  # noqa: PLC0415 - as above

    flags = None if config is None else config.flags
    return discover(
        (flags and flags.device_discovery_strategy) or "auto",
        (flags and flags.plugin.container_driver_root) or "/",
    )


def read_nodes(names: Sequence[str]) -> list[Node]:
    """The nodes of those names.

    Raises:
        UserError: one of them cannot be read.
    """
    return [Node(name, open_backend(name).read()) for name in dict.fromkeys(names)]


def check_on(source: Source, nodes: Sequence[Node]) -> Iterator[Finding]:
    """What does not work on nodes; nothing for a configuration that works on none."""
    if not nodes:
        return
    parsed = parse(Program.DEVICE_PLUGIN, [f"--config-file={source.file}"], SOMEWHERE)
    try:
        loaded = load(parsed, document=source.document)
    except ConfigError:
        return
    for node in nodes:
        yield from _check_on_node(source, loaded, node)


def _check_on_node(source: Source, loaded: Loaded, node: Node) -> Iterator[Finding]:
    def finding(severity: Severity, text: str, hint: str = "") -> Finding:
        place, message = place_in(loaded, text)
        return source.finding(severity, place, f"on {node.name}: {message}", hint)

    config = with_default_resources(loaded.config, node.inventory)
    warnings: list[str] = []
    try:
        plan = plan_of(config, node.inventory, warnings)
    except UserError as error:
        yield finding(Severity.ERROR, error.message, error.hint)
        return
    for warning in warnings:
        yield finding(Severity.WARNING, warning)
    for text in without_effect(loaded.config, node.inventory, plan):
        yield finding(Severity.WARNING, text)


def plan_of(config: Config, inventory: Inventory, warnings: list[str]) -> Plan:
    """What the node offers, if MPS allows it.

    Args:
        config: with its default resources.
        inventory: of the node.
        warnings: takes what is odd.

    Raises:
        UserError: the node cannot be served like this.
    """
    plan = make_plan(config, inventory)
    warnings += plan.warnings
    limits = find_limits(config, inventory, plan, warnings)
    for daemon in plan_daemons(config, inventory, plan, limits):
        warnings += daemon.warnings
    return plan


def without_effect(config: Config, inventory: Inventory, plan: Plan) -> Iterator[str]:
    """Entries that are about nothing that the node has."""
    section = "sharing.timeSlicing" if config.sharing.mps is None else "sharing.mps"
    offered = set(plan.names())
    for number, entry in enumerate(config.sharing.replicated.resources):
        if entry.name not in offered and entry.shared_name not in offered:
            there = ", ".join(sorted(offered)) or "none"
            yield (
                f"{section}.resources[{number}].name: the node has no resource {entry.name} "
                f"(there are: {there})"
            )
    profiles = {str(mig.profile) for _, mig in inventory.mig_pairs()}
    products = {gpu.name for gpu in inventory.gpus}
    if not config.extensions.honour_names:
        return
    for number, pattern in enumerate(config.resources.gpus or ()):
        if not any(matches(pattern.pattern, product) for product in products):
            yield (
                f"resources.gpus[{number}].pattern: {pattern.pattern!r} matches no GPU "
                f"(there are: {', '.join(sorted(products)) or 'none'})"
            )
    cuts = config.flags.mig_strategy in {MigStrategy.SINGLE, MigStrategy.MIXED}
    for number, pattern in enumerate(config.resources.mig):
        if cuts and not any(matches(pattern.pattern, profile) for profile in profiles):
            yield (
                f"resources.mig[{number}].pattern: {pattern.pattern!r} matches no MIG device "
                f"(there are: {', '.join(sorted(profiles)) or 'none'})"
            )


def place_in(loaded: Loaded, text: str) -> tuple[Place, str]:
    """The place that a message begins with, and the rest of it."""
    found = _KEY.fullmatch(text)
    if found is not None:
        return loaded.origin(found[1]) or Place(loaded.file, path=found[1]), found[2]
    if "MIG strategy" in text:
        return loaded.origin("flags.migStrategy") or Place(loaded.file), text
    section = "sharing.timeSlicing" if loaded.config.sharing.mps is None else "sharing.mps"
    for number, entry in enumerate(loaded.config.sharing.replicated.resources):
        about = _ABOUT.match(text)
        if about is not None and about[1] in {entry.name, entry.shared_name}:
            return loaded.origin(f"{section}.resources[{number}]") or Place(loaded.file), text
    return Place(loaded.file), text
