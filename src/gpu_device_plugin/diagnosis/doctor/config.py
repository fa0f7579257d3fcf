"""Checks of the plugin's configuration, and of what it would offer with it."""

from __future__ import annotations

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.config.validate import validate_plugin
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.kubelet import may_plan
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.errors import ConfigError, UserError


def check_config(host: Host) -> Outcome:
    """Whether the configuration can be used, and means what was meant."""
    find = Findings()
    path = host.parsed.text("config-file")
    find.saw(f"--config-file={path or '(none)'}")
    for name, origin in sorted(host.parsed.origins.items()):
        find.saw(f"{name} is set by {origin}")
    try:
        loaded = host.loaded
        # CDI without NVML is told by the checks of the driver, where there is one to look for.
        validate_plugin(loaded.config, lambda: True, loaded.origins)
    except ConfigError as error:
        find.fail(one_line(error.message), one_line(error.hint) or "correct it")
        return find.outcome("")
    for warning in loaded.warnings:
        find.warn(one_line(str(warning)), "gpu-node validate tells more")
    return find.outcome(path or "no file: flags, variables and defaults")


def check_offer(host: Host) -> Outcome:
    """What the plugin would offer with it on this node."""
    if host.usable_config() is None:
        return not_checked("the configuration cannot be used", "see the check config")
    if host.nvml.problem:
        return not_checked("NVML tells nothing of GPUs: see the check nvml")
    if not may_plan(host):
        return not_checked(
            "what would be offered is planned with the driver of this mount namespace only",
            "run it on the host, or in the plugin's pod",
        )
    find = Findings()
    try:
        plan = host.plan
    except UserError as error:
        find.fail(f"nothing can be offered: {one_line(error.message)}", one_line(error.hint))
        return find.outcome("")
    for resource in plan.resources:
        find.saw(f"{resource.name}: {resource.size}")
    for text in plan.warnings:
        find.warn(one_line(text))
    offered = [resource for resource in plan.resources if resource.size]
    if not offered and host.nvml.gpus:
        find.warn(
            "there are GPUs, and the plugin would offer none of them",
            "gpu-node explain; resources.gpus, extensions.gpus and --mig-strategy decide",
        )
    return find.outcome(", ".join(f"{r.name}: {r.size}" for r in offered) or "nothing: no GPU")


CHECKS = (
    Check(
        "config",
        Group.CONFIGURATION,
        "options and configuration file can be used; odd settings",
        "troubleshooting.md#configurations",
        check_config,
    ),
    Check(
        "offer",
        Group.CONFIGURATION,
        "what the plugin would offer",
        "operations.md#mig-reconfiguration",
        check_offer,
        seconds=20,
    ),
)
