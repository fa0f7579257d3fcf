"""Checks a configuration before a node is switched to it."""

from __future__ import annotations

from functools import partial

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import validate_plugin

SOMEWHERE = {"MPS_ROOT": "/run/nvidia/mps"}
"""Settings that the plugin gets from its own environment, which is not known here."""


def check_profile(path: str) -> None:
    """Looks at a configuration as nvidia-device-plugin does at its start.

    Raises:
        ConfigError: with the same line as the plugin would give.
    """
    # Only if it is asked for.
    from gpu_device_plugin.config.load import load, read_file  # noqa: PLC0415

    parsed = parse(Program.DEVICE_PLUGIN, [f"--config-file={path}"], SOMEWHERE)
    loaded = load(parsed, partial(read_file, again=True))
    validate_plugin(loaded.config, lambda: True, loaded.origins)
