"""``gpu-node cdi generate`` and ``diff``: what the plugin would write now."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from gpu_device_plugin.config.load import load
from gpu_device_plugin.config.text import count
from gpu_device_plugin.console.screen import colours_for
from gpu_device_plugin.inspection.documents import as_json, as_yaml, save_json, save_yaml, twins
from gpu_device_plugin.inspection.drift import find_drifts
from gpu_device_plugin.inspection.preview import Preview, make_preview
from gpu_device_plugin.inspection.text import difference_lines
from gpu_device_plugin.plugin.cdi_settings import CdiSettings
from gpu_device_plugin.programs.commands.agent_file import with_file_of_agent
from gpu_device_plugin.programs.commands.cdi_options import parse_options_of_plugin
from gpu_device_plugin.programs.commands.console import write_out
from gpu_device_plugin.programs.device_plugin import open_backend

log = logging.getLogger(__name__)


def generate(given: argparse.Namespace) -> int:
    """Writes the specifications to stdout or to a directory; 1 if there was an error."""
    preview = _preview(given)
    missing = len(preview.missing_files())
    if missing and not given.verbose:
        log.info("%s not found; --verbose names them", count(missing, "optional file"))
    is_sound = _tell(preview, verbose=given.verbose)
    if not given.output_dir:
        write_out((as_yaml if given.format == "yaml" else as_json)(preview.specs))
        return 0 if is_sound else 1
    save = save_yaml if given.format == "yaml" else save_json
    for line in save(preview.specs, given.output_dir):
        log.info("%s", line)
    for twin in twins(preview.specs, given.output_dir):
        log.error("%s", twin)
        is_sound = False
    return 0 if is_sound else 1


def diff(given: argparse.Namespace) -> int:
    """Prints how the files on disk differ from the specifications; 1 if they do."""
    preview = _preview(given)
    _tell(preview, verbose=given.verbose)
    colours = colours_for(sys.stdout, os.environ)
    drifts = find_drifts(preview.specs, given.spec_dir)
    for drift in drifts:
        if drift.problem:
            log.warning("%s", drift.problem)
        lines = difference_lines(drift.before, drift.after, drift.hunks, colours)
        write_out("".join(f"{line}\n" for line in lines))
    if not drifts:
        number = count(len(preview.specs.specs), "specification")
        log.info("%s: no difference, %s", given.spec_dir, number)
    return 1 if drifts else 0


def _preview(given: argparse.Namespace) -> Preview:
    parsed = parse_options_of_plugin(with_file_of_agent(given.options_of_plugin, os.environ))
    loaded = load(parsed)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    settings = CdiSettings(
        feature_flags=parsed.strings("cdi-feature-flags"),
        disabled_hooks=parsed.strings("cdi-disable-hooks"),
    )
    return make_preview(loaded.config, settings, open_backend(parsed, loaded.config))


def _tell(preview: Preview, *, verbose: bool) -> bool:
    """Says what there is to say; whether none of it is an error."""
    if preview.unused:
        log.info(
            "with this --device-list-strategy the plugin writes no specification; "
            "it does with cdi-annotations or cdi-cri"
        )
    for text in preview.missing_files() if verbose else ():
        log.info("%s", text)
    for text in preview.warnings():
        log.warning("%s", text)
    errors = list(preview.errors())
    for text in errors:
        log.error("%s", text)
    return not errors
