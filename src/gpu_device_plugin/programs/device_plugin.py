"""``nvidia-device-plugin``: offers the node's GPUs to the kubelet."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpu_device_plugin import __version__
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.model import Config, MigStrategy
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.discover import discover
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.node import NodeReader
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.programs.common import load_with_origins, run_program
from gpu_device_plugin.programs.entry import leave
from gpu_device_plugin.programs.listening import prepare_port
from gpu_device_plugin.status.reporting import health_reporting
from gpu_device_plugin.telemetry import everyone

if TYPE_CHECKING:
    from gpu_device_plugin.status.reporter import Reporter

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    leave(run_program(Program.DEVICE_PLUGIN, serve, argv))


def serve(parsed: Parsed) -> None:
    """Serves until a signal comes.

    Raises:
        UserError: the node cannot be served.
    """
    log.info("starting nvidia-device-plugin v%s", __version__)
    kubelet = KubeletSocket(parsed.text("kubelet-socket"))
    directory = parsed.text("plugin-directory")
    check_directories(kubelet, directory)
    port = prepare_port(parsed)
    reader = NodeReader(
        load_config=lambda: load_with_origins(parsed),
        open_backend=lambda config: open_backend(parsed, config),
        cdi=cdi_settings(parsed),
    )

    async def supervise() -> None:
        reports = health_reporting(parsed, Program.DEVICE_PLUGIN)
        supervisor = Supervisor(
            reader,
            kubelet,
            socket_directory=directory,
            rescan_seconds=parsed.integer("rescan-interval") / 1e9,
            tell=everyone(port.tell, reports.tell),
        )

        def describe(reporter: Reporter) -> None:
            reporter.observe = supervisor.observe

        async with port.open(describe), reports.running(supervisor.observe):
            await supervisor.run()

    asyncio.run(supervise())


def cdi_settings(parsed: Parsed) -> CdiSettings:
    """What the options say of CDI specifications."""
    return CdiSettings(
        feature_flags=parsed.strings("cdi-feature-flags"),
        disabled_hooks=parsed.strings("cdi-disable-hooks"),
    )


def open_backend(parsed: Parsed, config: Config) -> Backend:
    """The simulated node where one is asked for, else what the platform calls for."""
    profile = parsed.text("simulate")
    if profile:
        from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend  # noqa: PLC0415 - seldom

        return SimulatedBackend.from_profile(profile)
    flags = config.flags
    return discover(
        flags.device_discovery_strategy or "",
        flags.plugin.container_driver_root or "/",
        # As in v0.19.3 (internal/rm/rm.go), whatever MIG has to do with a Tegra.
        tegra_needs_nvml=flags.mig_strategy == MigStrategy.MIXED and bool(flags.fail_on_init_error),
    )


def check_directories(kubelet: KubeletSocket, plugin_directory: str) -> None:
    """Names a directory that cannot be used before anything else goes wrong over it."""
    if kubelet.is_wanted and not os.path.isdir(kubelet.directory):
        raise ConfigError(
            f"the directory of the kubelet's socket, {one_line(kubelet.directory)}, does not exist",
            "mount it into the container, or set --kubelet-socket (KUBELET_SOCKET) to the "
            "kubelet's registration socket",
        )
    if not os.path.isdir(plugin_directory):
        raise ConfigError(
            f"the directory for the plugin's sockets, {one_line(plugin_directory)}, does not exist",
            "mount the kubelet's device-plugins directory there, or set --plugin-directory "
            "(GPU_NODE_PLUGIN_DIR) to it",
        )
    if not os.access(plugin_directory, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the directory for the plugin's sockets, {one_line(plugin_directory)}, cannot be "
            f"written by uid {os.geteuid()}",
            "the kubelet's directory belongs to root: run as root (runAsUser: 0), and do not mount "
            "it read-only",
        )
