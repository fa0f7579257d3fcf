"""``config-manager``: picks the node's configuration by a label, and tells who reads it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpu_device_plugin import __version__
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import validate_manager
from gpu_device_plugin.errors import UsageError
from gpu_device_plugin.kube.access import load_access
from gpu_device_plugin.kube.client import KubeClient
from gpu_device_plugin.programs.common import run_program
from gpu_device_plugin.programs.entry import leave
from gpu_device_plugin.programs.listening import NoPort, Port, prepare_port
from gpu_device_plugin.telemetry import Listener, nobody
from gpu_device_plugin.watch.directories import DirectoryWatch
from gpu_device_plugin.watch.follow import ProfileFollower, Target
from gpu_device_plugin.watch.node_label import follow_node
from gpu_device_plugin.watch.processes import Signaller
from gpu_device_plugin.watch.profiles import ProfileRules
from gpu_device_plugin.watch.signals import on_signals

if TYPE_CHECKING:
    from gpu_device_plugin.status.reporter import Reporter

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    leave(run_program(Program.CONFIG_MANAGER, work, argv))


def work(parsed: Parsed) -> None:
    """Applies the configuration once, or as long as no signal comes.

    Raises:
        UserError: options are missing, the API cannot be asked, or nothing can be applied.
    """
    validate_manager(parsed)
    log.info("starting config-manager v%s", __version__)
    # Who applies the configuration once is gone before anybody could ask.
    port = NoPort() if parsed.flag("oneshot") else prepare_port(parsed)
    number = asyncio.run(follow(parsed, port))
    if number is not None:
        # Ends by the signal, as the original does; only as the first process of a container,
        # which the kernel spares, it has to end by itself.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        sys.exit(128 + number)


async def follow(parsed: Parsed, port: Port) -> signal.Signals | None:
    """Does the work, looked at through a port; returns the signal that ended it."""
    numbers = list[signal.Signals]()
    stop = asyncio.Event()

    def end(number: signal.Signals) -> None:
        numbers.append(number)
        stop.set()

    on_signals(stop=end)
    follower = make_follower(parsed, port.tell)
    access = load_access(parsed.text("kubeconfig"))
    watch = DirectoryWatch([parsed.text("config-file-srcdir")], follower.wake.set)
    async with (
        port.open(lambda reporter: describe(follower, reporter)),
        KubeClient(access, program="config-manager") as client,
    ):
        nodes = follow_node(client, parsed.text("node-name"))
        run = follower.run_once if parsed.flag("oneshot") else follower.run
        tasks = [
            asyncio.create_task(follower.label.follow(nodes), name="label"),
            asyncio.create_task(run(), name="configuration"),
            asyncio.create_task(wait_for(stop), name="stop signal"),
        ]
        watch.start()
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            watch.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return numbers[0] if numbers else None


async def wait_for(event: asyncio.Event) -> None:
    """Returns when an event is set."""
    await event.wait()


def describe(follower: ProfileFollower, reporter: Reporter) -> None:
    """Tells a reporter where it learns how following is going."""
    from gpu_device_plugin.status import of_profiles  # noqa: PLC0415 - only for the port

    reporter.profile = lambda: follower.profile
    reporter.configuration = partial(of_profiles.profile_configuration, follower)
    reporter.ready = partial(of_profiles.profile_readiness, follower)


def make_follower(parsed: Parsed, tell: Listener = nobody) -> ProfileFollower:
    """Puts together what the options say; raises UsageError for a signal that is none."""
    validate = None
    if parsed.flag("validate-config"):
        from gpu_device_plugin.watch.validation import check_profile  # noqa: PLC0415 - seldom

        validate = check_profile
    rules = ProfileRules.of(parsed)
    target = Target(parsed.text("config-file-dst"), make_signaller(parsed))
    return ProfileFollower(rules, target, validate, tell=tell)


def make_signaller(parsed: Parsed) -> Signaller | None:
    """Who is told of changes, if anybody."""
    if not parsed.flag("send-signal"):
        return None
    number = parsed.integer("signal")
    if number not in {0, *signal.valid_signals()}:
        raise UsageError(
            f"invalid signal: {number} is none",
            "allowed: the numbers of signals, such as 1 for SIGHUP; set by --signal, SIGNAL",
        )
    return Signaller(parsed.text("process-to-signal"), number)
