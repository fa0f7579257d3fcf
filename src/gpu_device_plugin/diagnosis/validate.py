"""Everything that is wrong with files: configurations, ConfigMaps, manifests, rendered charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.config_maps import ConfigMap
from gpu_device_plugin.diagnosis.configurations import READERS, check_file
from gpu_device_plugin.diagnosis.files import Text
from gpu_device_plugin.diagnosis.findings import Finding, Severity, in_order
from gpu_device_plugin.diagnosis.manifests import Object, read_objects
from gpu_device_plugin.diagnosis.recognise import Kind, recognise
from gpu_device_plugin.diagnosis.sources import Source, what_of
from gpu_device_plugin.diagnosis.values import sources_of_values
from gpu_device_plugin.diagnosis.workloads import Workloads, united_findings
from gpu_device_plugin.errors import ConfigError

Fits = Callable[[Source], Iterable[Finding]]
"""Whether a configuration fits to a node."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was looked at, and what was found."""

    findings: tuple[Finding, ...]
    files: int = 0
    configurations: int = 0
    containers: int = 0

    def count(self, severity: Severity) -> int:
        """How many findings of that severity there are."""
        return sum(finding.severity is severity for finding in self.findings)

    def is_well(self, *, strict: bool) -> bool:
        """Whether nothing is wrong; if strict, warnings are."""
        return not (self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))


def validate(
    texts: Iterable[Text | Finding],
    programs: Sequence[Program] = READERS,
    fits: Fits = lambda _: (),
) -> Result:
    """Looks at all files; objects of all of them are taken to belong together.

    Args:
        texts: the files, or what is wrong with them.
        programs: whose rules are applied.
        fits: what else is to be said about each configuration.
    """
    work = _Validation(programs)
    for text in texts:
        if isinstance(text, Finding):
            work.order.append(text.place.file)
            work.findings.append(text)
        else:
            work.add(text)
    return work.finish(fits)


@dataclass(slots=True)
class _Validation:
    """The work in progress."""

    programs: Sequence[Program]
    findings: list[Finding] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    """Configurations that no container is known to read."""
    objects: list[Object] = field(default_factory=list)
    files: int = 0
    order: list[str] = field(default_factory=list)
    """The names of all files as they came."""

    def add(self, text: Text) -> None:
        """Takes in a file, by what it is."""
        self.files += 1
        self.order.append(text.file)
        source = Source(text.file, text.data)
        kind = recognise(source)
        if kind is Kind.UNKNOWN and text.is_named:
            kind = Kind.CONFIGURATION
        match kind:
            case Kind.MANIFESTS:
                self._add_manifests(text)
            case Kind.CONFIGURATION:
                self.sources.append(source)
            case Kind.VALUES:
                self._note(text, "values of a chart: only the configurations in them are checked")
                self.sources += sources_of_values(source)
            case Kind.TEMPLATE:
                self._note(text, "not checked: a template has to be rendered first")
            case Kind.UNKNOWN:
                self._note(text, "not checked: nothing in it looks like a configuration")

    def _note(self, text: Text, message: str) -> None:
        is_chart = "chart" in message or "template" in message
        hint = "helm template NAME CHART | gpu-node validate -" if is_chart else ""
        severity = Severity.WARNING if text.is_named and is_chart else Severity.NOTE
        self.findings.append(Finding(severity, Place(text.file), message, hint))

    def _add_manifests(self, text: Text) -> None:
        lines = text.data.count(b"\n") + (not text.data.endswith(b"\n"))

        def report(error: ConfigError) -> None:
            place, what = what_of(error)
            at = place or Place(text.file)
            # What ends too early is noticed in the line after the last one.
            at = Place(at.file, min(at.line, lines), at.path)
            self.findings.append(Finding(Severity.ERROR, at, what, error.hint))

        self.objects += read_objects(text.data, text.file, report)

    def finish(self, fits: Fits) -> Result:
        """Checks all that was taken in."""
        outcome = Workloads(self.objects, self.programs).check()
        self.findings += united_findings(outcome)
        unread = dict.fromkeys(c for c in outcome.choices if c not in outcome.sources)
        self.sources += unread
        for config_map in outcome.unread:
            self._add_config_map(config_map)
        for source in self.sources:
            self.findings += check_file(source, self.programs)
        sources = [*self.sources, *outcome.sources]
        for source in sources:
            self.findings += fits(source)
        return Result(
            tuple(in_order(self.findings, dict.fromkeys(self.order))),
            self.files,
            len(sources),
            outcome.containers,
        )

    def _add_config_map(self, config_map: ConfigMap) -> None:
        """One that nothing mounts holds configurations if it looks like it."""
        if config_map.speaks_of_configuration():
            self.findings += config_map.findings
            self.sources += config_map.entries.values()
        elif config_map.entries:
            place = config_map.object.root.place
            message = "not checked: nothing in it looks like a configuration"
            title = config_map.object.title
            self.findings.append(Finding(Severity.NOTE, place, message, "", title))
