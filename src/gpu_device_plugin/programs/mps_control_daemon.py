"""``mps-control-daemon``: runs and watches the MPS daemons of shared GPUs."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpu_device_plugin import __version__
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.mps.compute_mode import (
    ComputeModes,
    DriverComputeModes,
    SimulatedComputeModes,
)
from gpu_device_plugin.mps.daemon import Surroundings
from gpu_device_plugin.mps.names import CONTROL_TOOL, MPS_ROOT
from gpu_device_plugin.mps.node import DaemonReader
from gpu_device_plugin.mps.supervisor import MpsSupervisor
from gpu_device_plugin.mps.tool import ControlTool
from gpu_device_plugin.programs.common import load_config, run_program
from gpu_device_plugin.programs.entry import leave
from gpu_device_plugin.programs.listening import prepare_port
from gpu_device_plugin.watch.signals import on_signals

if TYPE_CHECKING:
    from gpu_device_plugin.status.reporter import Reporter

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    leave(run_program(Program.MPS_CONTROL_DAEMON, serve, argv))


def serve(parsed: Parsed) -> None:
    """Keeps the daemons running until a signal comes, or prepares their shared memory.

    Raises:
        UserError: the node cannot be served.
    """
    log.info("starting mps-control-daemon v%s", __version__)
    if parsed.command == "mount-shm":
        from gpu_device_plugin.mps.shm import mount_shm  # noqa: PLC0415 - a program of its own

        mount_shm(MPS_ROOT)
        return
    port = prepare_port(parsed)
    reader = DaemonReader(
        load_config=lambda: load_config(parsed),
        open_backend=lambda config: open_backend(parsed, config),
    )
    around = Surroundings(MPS_ROOT, control_tool(parsed), compute_modes(parsed))

    async def supervise() -> None:
        supervisor = MpsSupervisor(reader.read, around, port.tell)

        def stop(number: signal.Signals) -> None:
            log.info("%s: shutting down", number.name)
            supervisor.stop()

        def reload() -> None:
            log.info("SIGHUP: reloading")
            supervisor.reload()

        on_signals(stop=stop, reload=reload)
        async with port.open(lambda reporter: describe(supervisor, reporter)):
            await supervisor.run()

    asyncio.run(supervise())


def describe(supervisor: MpsSupervisor, reporter: Reporter) -> None:
    """Tells a reporter where it learns how the daemons are doing."""
    from gpu_device_plugin.status import of_mps  # noqa: PLC0415 - only for the port

    reporter.mps = partial(of_mps.mps_daemons, supervisor)
    reporter.ready = partial(of_mps.mps_readiness, supervisor)


def open_backend(parsed: Parsed, config: Config) -> Backend:
    """The simulated node where one is asked for, else the driver on the library path."""
    profile = parsed.text("simulate")
    if profile:
        from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend  # noqa: PLC0415 - seldom

        return SimulatedBackend.from_profile(profile)
    from gpu_device_plugin.hardware.discover import FILE, discover  # noqa: PLC0415 - only for MPS

    return discover(config.flags.device_discovery_strategy or "", "", advice=FILE)


def control_tool(parsed: Parsed) -> ControlTool:
    """NVIDIA's control program, or what is given in its place."""
    return ControlTool(parsed.text("mps-control-binary") or CONTROL_TOOL)


def compute_modes(parsed: Parsed) -> ComputeModes:
    """Those of the GPUs, be they simulated."""
    return SimulatedComputeModes() if parsed.text("simulate") else DriverComputeModes()
