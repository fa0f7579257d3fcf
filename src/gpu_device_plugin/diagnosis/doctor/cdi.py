"""Checks of CDI specifications: what runtimes would make of them."""

from __future__ import annotations

from gpu_device_plugin.cdi.paths import clean
from gpu_device_plugin.config.text import count
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Check, Findings, Group, Outcome, not_checked
from gpu_device_plugin.inspection.check import check_data, conflict_findings
from gpu_device_plugin.inspection.files import DIRECTORIES, EXTENSIONS, SpecFile
from gpu_device_plugin.inspection.findings import Severity

LARGEST = 16 * 1024 * 1024
PLUGIN_PREFIX = "k8s.device-plugin.nvidia.com-"
"""What the names of the plugin's files begin with."""
MOST_SHOWN = 5
"""Problems of one file that are told."""


def check_specs(host: Host) -> Outcome:
    """Whether the specifications can be read, do not conflict, and fit the node."""
    find = Findings()
    checked = []
    for priority, directory in enumerate(DIRECTORIES):
        names = [n for n in host.files.listdir(directory) if n.endswith(EXTENSIONS)]
        is_there = host.exists(directory)
        find.saw(
            f"{host.files.outer(directory)}: {count(len(names), 'file')}"
            if is_there
            else f"{host.files.outer(directory)}: not there"
        )
        for name in names:
            path = clean(f"{directory}/{name}")
            outer = host.files.outer(path)
            try:
                data = host.files.read(path, LARGEST)
            except OSError as error:
                find.fail(f"{outer}: cannot be read: {error.strerror}", f"ls -l {outer}")
                continue
            # Nodes and files that specifications name can be looked for on the host only.
            result = check_data(data, outer, host.files if host.has_host_files else None)
            checked.append((SpecFile(outer, priority), result))
            _tell(find, result.findings, outer)
    for finding in conflict_findings(checked):
        told = find.fail if finding.severity is Severity.ERROR else find.warn
        told(str(finding).partition(": ")[2], "remove one of the files, then restart the pod")
    names = [file.path.rpartition("/")[2] for file, _ in checked]
    _tell_missing(host, find, any(name.startswith(PLUGIN_PREFIX) for name in names))
    if not checked and not find.problems:
        return not_checked(
            "there are no CDI specifications, and the plugin's options ask for none",
            evidence=tuple(find.evidence),
        )
    devices = sum(len(result.spec.devices) for _, result in checked if result.spec is not None)
    return find.outcome(f"{count(len(checked), 'file')} with {count(devices, 'device')}")


def _tell(find: Findings, findings: tuple[object, ...], path: str) -> None:
    for finding in findings[:MOST_SHOWN]:
        severity, _, text = str(finding).partition(": ")
        told = find.fail if severity == Severity.ERROR else find.warn
        told(text, f"gpu-node cdi validate {path}")
    if len(findings) > MOST_SHOWN:
        find.saw(f"{path}: {len(findings) - MOST_SHOWN} further findings")


def _tell_missing(host: Host, find: Findings, is_written: bool) -> None:
    config = host.usable_config()
    if config is None or not config.uses_cdi() or is_written or host.simulated:
        return
    find.fail(
        f"--device-list-strategy asks for CDI, and the plugin's specification "
        f"({PLUGIN_PREFIX}*.json) is in none of {', '.join(DIRECTORIES)}",
        "does the plugin run, and is the host's /var/run/cdi mounted into its container? "
        "Its log has lines that begin with CDI:",
    )


CHECKS = (
    Check(
        "cdi-specs",
        Group.RUNTIME,
        "CDI specifications: readable, without conflicts, not older than the node",
        "cdi.md#troubleshooting",
        check_specs,
        seconds=20,
    ),
)
