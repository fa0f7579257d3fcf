"""``gpu-node cdi list`` and ``validate``: what is on disk."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from gpu_device_plugin.config.text import count, one_line
from gpu_device_plugin.console.data import DATA_FORMS, data_text
from gpu_device_plugin.console.screen import colours_for
from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.inspection.check import Checked, conflict_findings
from gpu_device_plugin.inspection.files import DIRECTORIES, existing
from gpu_device_plugin.inspection.findings import Finding, Severity
from gpu_device_plugin.inspection.host import host_root
from gpu_device_plugin.inspection.listing import make_listing
from gpu_device_plugin.inspection.targets import find_targets
from gpu_device_plugin.inspection.text import device_table, finding_line, result_line
from gpu_device_plugin.programs.commands.console import write_out

log = logging.getLogger(__name__)


def list_devices(given: argparse.Namespace) -> int:
    """Prints the devices; 1 if a file cannot be used."""
    directories = given.spec_dir or existing(DIRECTORIES)
    listing = make_listing(directories)
    if given.output in DATA_FORMS:
        write_out(data_text(listing.to_dict(), given.output))
    elif listing.entries:
        lines = device_table(listing.entries, colours_for(sys.stdout, os.environ))
        write_out("".join(f"{line}\n" for line in lines))
    else:
        log.info("no device in %s", _names(given.spec_dir or DIRECTORIES))
    for problem in listing.problems:
        log.error("%s", problem)
    return 1 if listing.problems else 0


def validate(given: argparse.Namespace) -> int:
    """Prints what is wrong; 1 if that makes a runtime refuse a file or a device."""
    host = None if given.no_host_checks else host_root(given.host_root)
    if host is not None and not os.path.isdir(given.host_root):
        raise ConfigError(
            f"{one_line(given.host_root)}: no directory",
            "--host-root is where the host's root is, or use --no-host-checks",
        )
    targets = find_targets(given.paths or existing(DIRECTORIES))
    if not targets:
        log.info("no specification in %s", _names(given.paths or DIRECTORIES))
    found: list[Finding] = []
    checked = []
    for target in targets:
        result = target.check(host)
        checked.append((target.file, result))
        found += result.findings
        _print([*_finding_lines(result.findings), result_line(result)])
    conflicts = list(conflict_findings(checked))
    _print(_finding_lines(conflicts))
    found += conflicts
    if len(targets) > 1:
        _print([_total(found, [result for _, result in checked])])
    bad = set(Severity) if given.strict else {Severity.ERROR}
    return 1 if any(finding.severity in bad for finding in found) else 0


def _finding_lines(findings: Sequence[Finding]) -> list[str]:
    colours = colours_for(sys.stdout, os.environ)
    return [finding_line(finding, colours) for finding in findings]


def _total(findings: Sequence[Finding], checked: Sequence[Checked]) -> str:
    numbers = {s: sum(finding.severity is s for finding in findings) for s in Severity}
    counts = (count(number, severity) for severity, number in numbers.items())
    return f"{count(len(checked), 'file')}: {', '.join(counts)}"


def _print(lines: Sequence[str]) -> None:
    write_out("".join(f"{line}\n" for line in lines))


def _names(paths: Sequence[str]) -> str:
    return ", ".join(map(one_line, paths))
