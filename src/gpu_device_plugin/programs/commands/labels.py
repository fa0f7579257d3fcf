"""``gpu-node labels``: what gpu-feature-discovery would publish, and where it is from."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_device_plugin.config.grammar import Parsed
    from gpu_device_plugin.config.load import Loaded
    from gpu_device_plugin.inspection.labels_report import Report

log = logging.getLogger(__name__)

FORMATS = ("table", "json", "yaml", "text")

OPTIONS_OF_DISCOVERY = (
    "simulate",
    "config-file",
    "mig-strategy",
    "device-discovery-strategy",
    "machine-type-file",
    "no-timestamp",
    "fail-on-init-error",
    "driver-root-ctr-path",
)
"""Those that decide what is read and what is published."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the parser of ``gpu-node labels``."""
    from gpu_device_plugin.config.option import Program
    from gpu_device_plugin.programs.commands.options import add_form_option, add_options_of

    add_form_option(
        parser,
        FORMATS,
        "table for people; json or yaml with everything; text, just the file that "
        "gpu-feature-discovery would write",
    )
    add_options_of(Program.GPU_FEATURE_DISCOVERY, OPTIONS_OF_DISCOVERY, parser, "for_discovery")


def run_labels(given: argparse.Namespace) -> int:
    """Runs the command; errors are one line each on stderr.

    Returns:
        0, 1 if nothing can be told of GPUs or after an error that a user can mend, or 2 if the
        options make no sense.
    """
    from gpu_device_plugin.programs.commands.console import run_command

    return run_command(lambda: _show(given))


def _show(given: argparse.Namespace) -> int:
    from gpu_device_plugin.console.screen import screen_of
    from gpu_device_plugin.inspection.labels_text import render
    from gpu_device_plugin.programs.commands.console import write_out

    report = _report(given.for_discovery or (), os.environ)
    if report.simulated and given.output == "table":
        log.info(
            "simulated node %s: the sources are those of a real node like it", report.simulated
        )
    write_out(render(report, given.output, screen_of(sys.stdout, os.environ)))
    for gap in report.gaps:
        log.log(logging.ERROR if gap.is_failure else logging.WARNING, "%s", gap)
    if report.is_blind:
        return 1
    if not report.tells_of_gpus:
        log.info("no labels of GPUs: there is no GPU on this node")
    return 0


def _report(arguments: Sequence[str], environ: Mapping[str, str]) -> Report:
    """Reads configuration and node as gpu-feature-discovery does."""
    from gpu_device_plugin.config.grammar import parse
    from gpu_device_plugin.config.options import Program
    from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent
    from gpu_device_plugin.programs.common import load_with_origins

    arguments = with_file_of_agent(arguments, environ)
    parsed = parse(Program.GPU_FEATURE_DISCOVERY, arguments, environ)
    return report_of(parsed, load_with_origins(parsed))


def report_of(parsed: Parsed, loaded: Loaded) -> Report:
    """Reads the node and tells its labels.

    Args:
        parsed: the options of gpu-feature-discovery.
        loaded: the configuration that it has with them.

    Raises:
        ConfigError: the configuration cannot be used.
        InitError: the driver cannot be used, and that is not tolerated.
    """
    from gpu_device_plugin.config.validate import validate_labels
    from gpu_device_plugin.inspection.labels_report import Settings, make_report
    from gpu_device_plugin.programs.gpu_feature_discovery import make_reader

    # Nothing is published, so that nobody need say to which node.
    flags = replace(loaded.config.flags, use_node_feature_api=False)
    config = replace(loaded.config, flags=flags)
    validate_labels(config, parsed, loaded.origins)
    gfd = config.flags.gfd
    timestamp = None if gfd is not None and gfd.no_timestamp else int(time.time())
    settings = Settings(
        config,
        loaded.origins,
        file=parsed.text("config-file"),
        simulated=parsed.text("simulate"),
    )
    return make_report(settings, make_reader(parsed, config), timestamp)
