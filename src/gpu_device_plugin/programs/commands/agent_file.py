"""The configuration of a node whose agent follows a label: commands in the agent's pod need it, too.

The agent has no file of its own, but a directory and a label that names a file of it. Without this,
commands that plan what would be offered would do so without any configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_device_plugin.config.grammar import Parsed

log = logging.getLogger(__name__)

DIRECTORY = "CONFIG_FILE_SRCDIR"
FILE = "CONFIG_FILE"
OPTIONS = (
    "node-name",
    "kubeconfig",
    "node-label",
    "default-config",
    "fallback-strategies",
    "config-file-srcdir",
)
"""Options of the agent by which it chooses; the others have no say in it."""
SECONDS = 3.0
"""How long the Kubernetes API is waited for."""


def with_file_of_agent(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Options of a program and, before them, the file that the node's label chooses now.

    Args:
        arguments: as given; an own ``--config-file`` goes before all.
        environ: the variables of the pod. Nothing is added unless they are those of an agent.

    Raises:
        ConfigError: no configuration can be chosen.
        UsageError: a variable makes no sense.
    """
    given = any(argument.lstrip("-").partition("=")[0] == "config-file" for argument in arguments)
    if given or environ.get(FILE) or not environ.get(DIRECTORY):
        return list(arguments)
    from gpu_device_plugin.config.grammar import parse
    from gpu_device_plugin.config.options import PROGRAMS, Program
    from gpu_device_plugin.watch.profiles import ProfileRules

    spec = PROGRAMS[Program.AGENT]
    names = {name for option in OPTIONS for name in spec.option(option).env}
    told = {name: value for name, value in environ.items() if name in names}
    parsed = parse(Program.AGENT, [], told)
    rules = ProfileRules.of(parsed)
    return [f"--config-file={rules.choose(_label(parsed, environ)).path}", *arguments]


def _label(parsed: Parsed, environ: Mapping[str, str]) -> str:
    """The value of the label now; empty if there is none, or if that is not known."""
    from gpu_device_plugin.errors import UserError
    from gpu_device_plugin.kube.once import get_node
    from gpu_device_plugin.kube.shapes import text

    name, node = parsed.text("node-label"), parsed.text("node-name")
    try:
        found = get_node(
            parsed.text("kubeconfig"), environ, node, program="gpu-node", seconds=SECONDS
        )
    except UserError as error:
        log.warning(
            "the label %s is not known (%s): the configuration of a node without it is taken",
            name,
            error.message,
        )
        return ""
    return text(found, "metadata", "labels", name)
