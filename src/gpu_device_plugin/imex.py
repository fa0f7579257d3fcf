"""IMEX channels: which of the configured ones this node has (k8s-device-plugin, internal/imex)."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.roots import join_root

log = logging.getLogger(__name__)

CHANNEL_DIRECTORY = "/dev/nvidia-caps-imex-channels"


@dataclass(frozen=True, slots=True)
class ImexChannel:
    """A channel that containers get."""

    id: str
    path: str
    """Of its device node in the container."""
    host_path: str
    """Of its device node below the dev root of this process."""


def find_channels(ids: Sequence[int], dev_root: str, *, required: bool) -> tuple[ImexChannel, ...]:
    """The configured channels whose device nodes are there.

    Args:
        ids: channel numbers from the configuration.
        dev_root: root of the device nodes in this process's file system.
        required: whether a missing channel is an error.

    Raises:
        ConfigError: a channel is missing although it is required.
    """
    found = list[ImexChannel]()
    for number in ids:
        path = f"{CHANNEL_DIRECTORY}/channel{number}"
        host_path = join_root(dev_root, path)
        problems = [_problem(candidate) for candidate in dict.fromkeys((host_path, path))]
        if None in problems:
            found.append(ImexChannel(str(number), path, host_path))
            continue
        reason = f"IMEX channel {number} cannot be used: " + "; ".join(p for p in problems if p)
        if required:
            raise ConfigError(
                reason, "--imex-required, IMEX_REQUIRED or imex.required makes this an error"
            )
        log.warning("%s; containers go without it", reason)
    return tuple(found)


def _problem(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return f"{path}: {os.strerror(error.errno or 0)}"
    return None if stat.S_ISCHR(mode) else f"{path} is no character device"
