"""Whom ``gpu-node status`` and its relatives ask: a running program, or the node itself."""

from __future__ import annotations

import argparse
import logging
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpu_device_plugin.errors import UsageError

if TYPE_CHECKING:
    from gpu_device_plugin.status.look import LookSource

log = logging.getLogger(__name__)

ADDRESS_VARIABLE = "GPU_NODE_ADDRESS"
TOKEN_VARIABLE = "GPU_NODE_TOKEN_FILE"  # noqa: S105 - the name of a variable
NODE_VARIABLE = "NODE_NAME"


def open_source(given: argparse.Namespace, environ: Mapping[str, str]) -> tuple[LookSource, str]:
    """Whom to ask, and what is going on while it is asked.

    Options of the plugin win over the variable that names an address: who gives them wants the
    node read.

    Raises:
        UsageError: the options contradict each other or make no sense.
        ConfigError: the plugin's options make no sense.
    """
    if given.address is not None and given.for_plugin:
        option = given.for_plugin[0].partition("=")[0]
        raise UsageError(
            f"{option} says nothing with --address: the program that is asked has its own",
            "leave one of them out",
        )
    address = given.address
    name = "--address"
    if address is None and not given.for_plugin:
        address, name = environ.get(ADDRESS_VARIABLE, ""), ADDRESS_VARIABLE
    if address:
        return _remote(address, name, given, environ)
    for option in ("token_file", "ca_file", "insecure"):
        if getattr(given, option):
            flag = "--" + option.replace("_", "-")
            raise UsageError(f"{flag} says nothing without --address")
    return _local(given, environ), "reading the node"


def _remote(
    text: str, name: str, given: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[LookSource, str]:
    from gpu_device_plugin.status.remote_source import Credentials, RemoteSource, parse_address

    address = parse_address(text, name)
    if address.scheme == "http" and (given.ca_file or given.insecure):
        raise UsageError("--ca-file and --insecure say nothing without https:// in the address")
    token = given.token_file
    credentials = Credentials(
        token_file=environ.get(TOKEN_VARIABLE, "") if token is None else token,
        ca_file=given.ca_file,
        verify=not given.insecure,
    )
    return RemoteSource(address, credentials), f"asking the program at {address}"


def _local(given: argparse.Namespace, environ: Mapping[str, str]) -> LookSource:
    from gpu_device_plugin.config.load import load
    from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent
    from gpu_device_plugin.programs.commands.cdi_options import parse_options_of_plugin
    from gpu_device_plugin.programs.device_plugin import open_backend
    from gpu_device_plugin.status.local_source import LocalSource

    arguments = with_file_of_agent(given.for_plugin or (), environ)
    parsed = parse_options_of_plugin(arguments, environ)
    return LocalSource(
        load_config=lambda: load(parsed),
        open_backend=lambda config: open_backend(parsed, config),
        socket=parsed.text("pod-resources-socket"),
        node=environ.get(NODE_VARIABLE) or platform.node(),
        simulated=parsed.text("simulate"),
    )
