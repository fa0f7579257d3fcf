"""The labels that gpu-feature-discovery would publish, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.model import Config, GfdFlags
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.validate import Origins, validate_mig_strategy
from gpu_device_plugin.hardware.model import Platform
from gpu_device_plugin.inspection.topology.select import ranges
from gpu_device_plugin.labels import keys, mig
from gpu_device_plugin.labels.catalog import PROFILE, Description, describe
from gpu_device_plugin.labels.compute import LABELERS, make_labels
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.gpus import described
from gpu_device_plugin.labels.model import Facts, Label, Labels
from gpu_device_plugin.resources.selection import select_gpus

_OF_ANY_NODE = frozenset({keys.TIMESTAMP, keys.VGPU_PRESENT})


@dataclass(frozen=True, slots=True)
class Settings:
    """What the program was told, and by what."""

    config: Config
    origins: Origins = field(default_factory=dict)
    file: str = ""
    """The configuration file, if there is one."""
    simulated: str = ""
    """The profile, if the node is a simulated one."""


@dataclass(frozen=True, slots=True)
class Row:
    """A label that is published."""

    key: str
    """Without the prefix."""
    value: str
    source: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Why labels are missing, or not to be relied on."""

    reason: str
    labels: tuple[str, ...] = ()
    """Keys of those that are missing, with ``*`` for anything."""
    is_failure: bool = False
    """Whether ``--oneshot`` fails over it, or it is the driver that cannot be used."""

    def __str__(self) -> str:
        """``not published: KEYS: REASON``, or the reason alone."""
        if not self.labels:
            return self.reason
        return f"not published: {', '.join(self.labels)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """All that there is to say about the labels of a node."""

    rows: tuple[Row, ...]
    gaps: tuple[Gap, ...]
    published: Mapping[str, str]
    """The labels as they are published: by full key."""
    platform: Platform
    simulated: str = ""

    @property
    def tells_of_gpus(self) -> bool:
        """Whether there is any label but those that nodes without GPUs have, too."""
        return any(row.key not in _OF_ANY_NODE for row in self.rows)

    @property
    def is_blind(self) -> bool:
        """Whether nothing is known of GPUs, because something failed."""
        return not self.tells_of_gpus and any(gap.is_failure for gap in self.gaps)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "simulated": self.simulated or None,
            "platform": str(self.platform),
            "labels": [
                {
                    "label": keys.PREFIX + row.key,
                    "value": row.value,
                    "source": row.source,
                    "meaning": row.meaning,
                }
                for row in self.rows
            ],
            "problems": [
                {
                    "reason": gap.reason,
                    "missing": [keys.PREFIX + key for key in gap.labels],
                    "failure": gap.is_failure,
                }
                for gap in self.gaps
            ],
        }


def make_report(settings: Settings, reader: FactReader, timestamp: int | None) -> Report:
    """Reads the node and makes its labels, by the steps of a pass of gpu-feature-discovery.

    Args:
        settings: of the program.
        reader: of the node.
        timestamp: in seconds since 1970; None for no such label.

    Raises:
        ConfigError: the MIG strategy is none.
        InitError: the driver cannot be used, and that is not tolerated.
    """
    facts = reader.read(timestamp)
    if facts.node.has_devices:
        validate_mig_strategy(settings.config, settings.origins)
    return explain(settings, facts, make_labels(settings.config, facts))


def explain(settings: Settings, facts: Facts, labels: Labels) -> Report:
    """The labels with their sources, and what is missing with the reasons."""
    words = _words(settings, facts)
    platform = facts.node.inventory.platform
    rows = [
        _row(label, label.value, platform, words | _words_on_sharing(settings, label.key))
        for label in labels.labels
        if label.value is not None
    ]
    return Report(
        rows=tuple(rows),
        gaps=tuple(_gaps(facts, labels)),
        published=labels.published(),
        platform=platform,
        simulated=settings.simulated,
    )


_OF_MIG = next(labeler.name for labeler in LABELERS if labeler.find is mig.mig_devices)


def _row(label: Label, value: str, platform: Platform, words: Mapping[str, str]) -> Row:
    description = describe(label.key)
    origin = _of_mig_devices(label) or description
    source = label.why or (origin.source.on(platform, words) if origin else label.source)
    return Row(label.key, value, source, description.meaning if description else "")


def _of_mig_devices(label: Label) -> Description | None:
    """What the key means for MIG devices, if it tells of them though it is a key of GPUs."""
    kind, _, name = label.key.partition(".")
    if label.source != _OF_MIG or kind != keys.GPU:
        return None
    return describe(keys.of(keys.mig_kind(PROFILE), name))


def _words(settings: Settings, facts: Facts) -> dict[str, str]:
    """What this node has for the names in sources."""
    strategy = settings.origins.get("flags.migStrategy")
    gpus = select_gpus(settings.config, facts.node.inventory).gpus
    indices = [gpu.index for gpu in described(gpus)] if gpus else []
    return {
        "gpus": f"GPU {ranges(indices)}",
        "machine": _machine(settings, facts),
        "strategy": _set_by(strategy) if strategy else "default of --mig-strategy",
    }


def _machine(settings: Settings, facts: Facts) -> str:
    file = (settings.config.flags.gfd or GfdFlags()).machine_type_file or ""
    if not file:
        return "none, --machine-type-file is empty"
    is_usual = file == PROGRAMS[Program.GPU_FEATURE_DISCOVERY].option("machine-type-file").default
    if facts.machine is None:
        return f"{file}, which cannot be read"
    if is_usual and settings.simulated:
        return "name of the machine in the profile"
    return f"DMI product name, {file}" if is_usual else file


_SETTINGS = (keys.REPLICAS, keys.SHARING_STRATEGY)


def _words_on_sharing(settings: Settings, key: str) -> dict[str, str]:
    """What decides how the devices of a label are shared, and whether MPS can be used."""
    kind, name = next(((key[: -len(n) - 1], n) for n in _SETTINGS if key.endswith(n)), ("", ""))
    text = _sharing(settings, keys.PREFIX + kind if name else "")
    uses_mps = settings.config.uses_mps()
    return {"sharing": text, "mps": f"{text}, NVML nvmlDeviceGetMigMode" if uses_mps else text}


def _sharing(settings: Settings, resource: str) -> str:
    if not settings.file:
        return "no configuration file, so nothing is shared"
    config = settings.config
    if config.extensions.sharing:
        return f"extensions.sharing of {settings.file}"
    section = "sharing.timeSlicing" if config.sharing.mps is None else "sharing.mps"
    names = [entry.name for entry in config.sharing.replicated.resources]
    if not names:
        return f"nothing is shared in {settings.file}"
    if resource and resource not in names:
        return f"no {resource} in {section} of {settings.file}"
    return f"{section} of {settings.file}"


def _set_by(place: Place) -> str:
    """The flag, the variable, or the key with the line of the file."""
    return f"{place.path} in {place.file}:{place.line}" if place.file else place.path


def _gaps(facts: Facts, labels: Labels) -> Iterator[Gap]:
    if facts.driver_problem:
        yield Gap(facts.driver_problem, ("cuda.*", "gpu.*", "mig.*", "mps.*"), is_failure=True)
    for problem in labels.problems:
        yield Gap(problem.text, problem.costs, problem.is_failure)
    found = {label.key for label in labels.labels}
    memory = keys.of(keys.GPU, keys.MEMORY)
    is_told = any(memory in problem.costs for problem in labels.problems)
    if facts.node.inventory.gpus and memory not in found and not is_told:
        yield Gap("the driver does not tell the memory", (memory,))
