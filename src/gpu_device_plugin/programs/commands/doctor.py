"""``gpu-node doctor``: what is wrong with this node, and what to do about it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from gpu_device_plugin.config.text import one_line
from gpu_device_plugin.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from gpu_device_plugin.config.load import Loaded
    from gpu_device_plugin.config.model import Config
    from gpu_device_plugin.diagnosis.doctor.host import Host
    from gpu_device_plugin.diagnosis.doctor.model import Check
    from gpu_device_plugin.hardware.backend import Backend

FORMATS = ("table", "json", "yaml")
FAILED_EXIT = 1

OPTIONS_OF_PLUGIN = (
    "simulate",
    "config-file",
    "mig-strategy",
    "device-discovery-strategy",
    "device-list-strategy",
    "pass-device-specs",
    "driver-root",
    "driver-root-ctr-path",
    "nvidia-cdi-hook-path",
    "cdi-disable-hooks",
    "mps-root",
    "kubelet-socket",
    "plugin-directory",
    "pod-resources-socket",
    "metrics-address",
    "metrics-tls-cert-file",
    "metrics-token-file",
    "node-name",
)
"""Those that decide where the checks look and what they expect there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of ``gpu-node doctor``."""
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.programs.commands.options import add_form_option, add_options_of

    add_form_option(parser, FORMATS, "table for people; json or yaml with everything")
    parser.add_argument(
        "--verbose", action="store_true", help="show what was seen of what is in order, too"
    )
    parser.add_argument("--list", action="store_true", help="list the checks and exit")
    parser.add_argument(
        "--only", metavar="NAME,...", action="append", help="make these checks or groups only"
    )
    parser.add_argument(
        "--skip", metavar="NAME,...", action="append", help="leave out these checks or groups"
    )
    parser.add_argument(
        "--host-root",
        metavar="DIR",
        default="/",
        help="where the host's root is, if this is a debug container: /host (default: /)",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="how to reach the Kubernetes API (KUBECONFIG); without it as the service account of "
        "the pod, if this is one",
    )
    add_options_of(Program.DEVICE_PLUGIN, OPTIONS_OF_PLUGIN, parser, "for_plugin")


def run_doctor(given: argparse.Namespace) -> int:
    """Runs the command; errors are one line each on stderr.

    Returns:
        0 if nothing has failed, warnings or not; 1 if something has; 2 if the options make no
        sense.
    """
    from gpu_device_plugin.programs.commands.console import USAGE_EXIT, run_command

    return run_command(lambda: _examine(given), USAGE_EXIT)


def _examine(given: argparse.Namespace) -> int:
    from gpu_device_plugin.console.data import DATA_FORMS, data_text
    from gpu_device_plugin.console.screen import screen_of
    from gpu_device_plugin.diagnosis.doctor import catalogue, document, run, text
    from gpu_device_plugin.diagnosis.doctor.model import Verdict
    from gpu_device_plugin.programs.commands.console import write_out

    checks = catalogue.choose(_names(given.only), _names(given.skip))
    if given.list:
        write_out("".join(f"{line}\n" for line in text.list_lines(checks)))
        return 0
    host = make_host(given)
    _quieten()
    results = list(run.run_checks(checks, host, _show_waiting))
    if given.output in DATA_FORMS:
        write_out(data_text(document.to_dict(host, results), given.output))
    else:
        style = text.Style(screen_of(sys.stdout, os.environ), given.verbose)
        write_out("".join(f"{line}\n" for line in text.lines_of(results, style)))
    has_failed = any(result.outcome.verdict is Verdict.FAILED for result in results)
    return FAILED_EXIT if has_failed else 0


def make_host(given: argparse.Namespace) -> Host:
    """What the checks look at.

    Raises:
        UsageError: an option makes no sense.
    """
    from gpu_device_plugin.cdi.system import System
    from gpu_device_plugin.config.load import load
    from gpu_device_plugin.diagnosis.doctor.host import Host
    from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent
    from gpu_device_plugin.programs.commands.cdi_options import parse_options_of_plugin

    problem: ConfigError | None = None
    arguments = list(given.for_plugin or ())
    try:
        arguments = with_file_of_agent(arguments, os.environ)
    except ConfigError as error:
        problem = error  # that is what the check of the configuration tells
    parsed = parse_options_of_plugin(arguments)
    if not os.path.isdir(given.host_root):
        raise UsageError(
            f"--host-root: {one_line(given.host_root)} is no directory",
            "it is where the host's root is mounted: /host in kubectl debug node",
        )

    def open_the_backend(config: Config) -> Backend:
        from gpu_device_plugin.programs.device_plugin import open_backend

        return open_backend(parsed, config)

    def load_the_config() -> Loaded:
        if problem is not None:
            raise problem
        return load(parsed)

    return Host(
        parsed=parsed,
        load_config=load_the_config,
        open_backend=open_the_backend,
        host_root=os.path.abspath(given.host_root),
        kubeconfig=given.kubeconfig or os.environ.get("KUBECONFIG", ""),
        environ=os.environ,
        system=System.current(),
    )


def _names(given: list[str] | None) -> list[str]:
    return [name.strip() for item in given or () for name in item.split(",") if name.strip()]


def _quieten() -> None:
    """What the parts used have to say is in what the checks tell."""
    import logging

    logging.getLogger("gpu_device_plugin").setLevel(logging.CRITICAL)


def _show_waiting(check: Check | None) -> None:
    """Shows on a terminal what is being waited for, and takes it away again."""
    if not sys.stderr.isatty():
        return
    text = "" if check is None else f"{check.name}: {check.title} …"
    sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
    sys.stderr.flush()
