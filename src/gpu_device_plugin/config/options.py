"""Every option of every program, in one table that drives parsing, ``--help``, docs and schema."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_device_plugin.config.option import Command, Kind, Option, Program, ProgramSpec, Value
from gpu_device_plugin.config.options_agent import AGENT
from gpu_device_plugin.config.options_gfd import GPU_FEATURE_DISCOVERY
from gpu_device_plugin.config.options_manager import CONFIG_MANAGER
from gpu_device_plugin.config.options_mps import MPS_CONTROL_DAEMON
from gpu_device_plugin.config.options_plugin import DEVICE_PLUGIN

__all__ = [
    "PROGRAMS",
    "Command",
    "Kind",
    "Option",
    "Program",
    "ProgramSpec",
    "Value",
    "option_for_path",
]

PROGRAMS: Mapping[Program, ProgramSpec] = {
    spec.program: spec
    for spec in (DEVICE_PLUGIN, GPU_FEATURE_DISCOVERY, MPS_CONTROL_DAEMON, CONFIG_MANAGER, AGENT)
}


def option_for_path(path: str) -> Option | None:
    """The option that overrides a key of the configuration file.

    Where it is not the same in every program, the one that allows most values, since one file
    serves all of them.
    """
    options = [o for spec in PROGRAMS.values() for o in spec.options if o.config_path == path]
    return max(options, key=lambda option: len(option.allowed)) if path and options else None
