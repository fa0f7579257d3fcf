"""Reports on labels, without hardware."""

from __future__ import annotations

from dataclasses import replace

from support.labels import gfd_config

from gpu_device_plugin.config.model import Config, GfdFlags
from gpu_device_plugin.hardware.node_facts import open_source
from gpu_device_plugin.hardware.simulated.profile import built_in_names
from gpu_device_plugin.inspection.labels_report import (
    Report,
    Settings,
    explain,
    make_report,
)
from gpu_device_plugin.labels.compute import make_labels
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.model import Facts

STRATEGIES = ("none", "single", "mixed")
PROFILES = [name for name in built_in_names() if name != "no-driver"]
DMI = "/sys/class/dmi/id/product_name"


def report_of(
    facts: Facts, config: Config | None = None, settings: Settings | None = None
) -> Report:
    settings = settings or Settings(config or gfd_config())
    return explain(settings, facts, make_labels(settings.config, facts))


def sources(report: Report) -> dict[str, str]:
    return {row.key: row.source for row in report.rows}


def simulated(profile: str, strategy: str = "none", **changes: object) -> Report:
    config = gfd_config(strategy, gfd=GfdFlags(False, False, 10**9, "", DMI))
    settings = replace(Settings(config, simulated=profile), **changes)  # type: ignore[arg-type]  # fields
    return make_report(settings, FactReader(open_source("", profile), DMI, True), 7)
