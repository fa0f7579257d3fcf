"""``gpu-node agent``: devices, labels and configuration of a node in one process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_device_plugin import __version__
from gpu_device_plugin.agent.agent import Agent, Announce, Following
from gpu_device_plugin.agent.configurations import Configurations
from gpu_device_plugin.agent.labeller import Labeller
from gpu_device_plugin.agent.sources import LabelledFile, SingleFile, Source
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.load import Loaded, load
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import validate_agent, validate_labels
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.described import describe
from gpu_device_plugin.plugin.kubelet_socket import KubeletSocket
from gpu_device_plugin.plugin.node import NodeReader, check_fit
from gpu_device_plugin.plugin.supervisor import Supervisor
from gpu_device_plugin.programs.common import run_program
from gpu_device_plugin.programs.device_plugin import cdi_settings, check_directories, open_backend
from gpu_device_plugin.programs.gpu_feature_discovery import make_work, open_client
from gpu_device_plugin.programs.listening import Port, prepare_port
from gpu_device_plugin.status.reporting import health_reporting
from gpu_device_plugin.telemetry import Listener, everyone
from gpu_device_plugin.watch.node_label import NodeLabel, follow_node
from gpu_device_plugin.watch.profiles import Profile, ProfileRules

if TYPE_CHECKING:
    from gpu_device_plugin.kube.client import KubeClient
    from gpu_device_plugin.status.reporter import Reporter

log = logging.getLogger(__name__)

NAME = "gpu-node-agent"
"""What the program calls itself towards Kubernetes."""


def run_agent(argv: Sequence[str]) -> int:
    """Runs the agent; its exit code."""
    return run_program(Program.AGENT, serve, argv)


def serve(parsed: Parsed) -> None:
    """Serves and labels the node until a signal comes.

    Raises:
        UserError: the node cannot be served.
    """
    validate_agent(parsed)
    log.info("starting gpu-node agent v%s", __version__)
    kubelet = KubeletSocket(parsed.text("kubelet-socket"))
    check_directories(kubelet, parsed.text("plugin-directory"))
    asyncio.run(run(parsed, kubelet, prepare_port(parsed)))


async def run(parsed: Parsed, kubelet: KubeletSocket, port: Port) -> None:
    """Puts the parts together and runs them, looked at through a port."""
    wake = asyncio.Event()
    source, following, client = follow(parsed, wake)
    reports = health_reporting(parsed, NAME)
    tell = everyone(port.tell, reports.tell)
    configurations = Configurations(
        source,
        load=lambda profile, contents: load_profile(parsed, profile, contents),
        check=lambda loaded, inventory: check_fit(loaded, find(parsed, loaded.config), inventory),
        tell=tell,
    )
    reader = NodeReader(
        load_config=configurations.load,
        open_backend=lambda config: find(parsed, config),
        cdi=cdi_settings(parsed),
    )

    def make_supervisor(announce: Announce, hear: Listener) -> Supervisor:
        return Supervisor(
            reader,
            kubelet,
            socket_directory=parsed.text("plugin-directory"),
            rescan_seconds=parsed.integer("rescan-interval") / 1e9,
            tell=everyone(hear, tell),
            announce=announce,
            must_fit=False,
        )

    agent = Agent(
        configurations,
        make_supervisor,
        labeller=make_labeller(parsed, client, tell),
        following=following,
        directory=source.directory,
        wake=wake,
    )

    def describe_agent(reporter: Reporter) -> None:
        reporter.observe = agent.observe
        reporter.ready = agent.readiness
        reporter.labelling = agent.labelling
        reporter.profile = agent.profile

    async with client or nullcontext(), port.open(describe_agent), reports.running(agent.observe):
        await agent.run()


def follow(
    parsed: Parsed, wake: asyncio.Event
) -> tuple[Source, Following | None, KubeClient | None]:
    """Where the configuration comes from, and what is needed to know.

    Raises:
        ConfigError: the Kubernetes API cannot be used as told.
    """
    directory, file = parsed.text("config-file-srcdir"), parsed.text("config-file")
    if not directory:
        return SingleFile(file), None, None
    if file:
        log.warning(
            "%s: without effect: the label of the node chooses a file of %s",
            parsed.origins.get("config-file", "config-file"),
            directory,
        )
    client = open_client(parsed, NAME)
    rules = ProfileRules.of(parsed)
    label = NodeLabel(rules.label, wake.set)
    following = Following(
        label, lambda: label.follow(follow_node(client, parsed.text("node-name")))
    )
    return LabelledFile(rules, label), following, client


def find(parsed: Parsed, config: Config) -> Backend:
    """The hardware, to be read for devices and labels in one go."""
    driver_root = config.flags.plugin.container_driver_root or "/"
    return describe(open_backend(parsed, config), driver_root)


def make_labeller(parsed: Parsed, client: KubeClient | None, tell: Listener) -> Labeller | None:
    """Publishes labels, if any are wanted."""
    if not parsed.flag("publish-labels"):
        return None
    return Labeller(lambda loaded, source: make_work(parsed, loaded, source, client), tell=tell)


def load_profile(parsed: Parsed, profile: Profile, contents: bytes) -> Loaded:
    """The configuration that a file comes to with flags, variables and defaults.

    Raises:
        ConfigError: it cannot be used.
    """
    values, origins = {**parsed.values, "config-file": profile.path}, dict(parsed.origins)
    if profile.name:
        origins["config-file"] = f"the label {parsed.text('node-label')} of the node"
    loaded = load(replace(parsed, values=values, origins=origins), lambda _: contents)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    if parsed.flag("publish-labels"):
        validate_labels(loaded.config, parsed, loaded.origins)
        gfd = loaded.config.flags.gfd
        if gfd is not None and gfd.oneshot:
            log.warning("flags.gfd.oneshot: without effect: the agent labels as long as it serves")
    return loaded
