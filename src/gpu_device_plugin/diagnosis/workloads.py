"""The containers of these programs among objects: options, configurations, mounts, permissions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.diagnosis.commands import command_line, hidden_program
from gpu_device_plugin.diagnosis.config_maps import (
    ConfigMap,
    Found,
    Library,
    choices_of,
    configurations_of,
    is_manager,
    read_config_map,
)
from gpu_device_plugin.diagnosis.configurations import (
    OFFERING,
    check,
    check_without_file,
    follows_label,
)
from gpu_device_plugin.diagnosis.findings import Finding, Severity, united
from gpu_device_plugin.diagnosis.listener import check_listener
from gpu_device_plugin.diagnosis.managers import check_agent, check_manager
from gpu_device_plugin.diagnosis.manifests import Object
from gpu_device_plugin.diagnosis.mounts import check_needs, check_volumes
from gpu_device_plugin.diagnosis.options import Options, read_options
from gpu_device_plugin.diagnosis.pods import Container, Pod, pod_of
from gpu_device_plugin.diagnosis.rbac import Cluster
from gpu_device_plugin.diagnosis.sources import Source


@dataclass(slots=True)
class Outcome:
    """What has been found in objects."""

    findings: list[Finding] = field(default_factory=list)
    of_configurations: list[tuple[Program, list[Finding]]] = field(default_factory=list)
    """What programs say about configurations, which several may read."""
    sources: list[Source] = field(default_factory=list)
    """The configurations that have been checked."""
    choices: list[Source] = field(default_factory=list)
    """Those that config-managers choose from, for whatever program."""
    unread: list[ConfigMap] = field(default_factory=list)
    """ConfigMaps that no pod has anything to do with."""
    containers: int = 0
    configs_of_plugin: list[tuple[Container, Config]] = field(default_factory=list)
    programs: set[Program] = field(default_factory=set)


class Workloads:
    """Objects of Kubernetes that belong together."""

    def __init__(self, objects: Sequence[Object], programs: Sequence[Program]) -> None:
        self._objects = objects
        self._programs = programs
        config_maps = [read_config_map(item) for item in objects if item.kind == "ConfigMap"]
        self._library = Library(config_maps)
        self._cluster = Cluster(objects)
        self._outcome = Outcome()

    def check(self) -> Outcome:
        """Looks at every container of ours, and at what it reads."""
        for item in self._objects:
            pod = pod_of(item)
            if pod is not None:
                self._check_pod(pod)
        self._check_daemons()
        self._outcome.unread = list(self._library.unused())
        return self._outcome

    def _check_pod(self, pod: Pod) -> None:
        self._mark_as_used(pod)
        found = [options for c in pod.containers() if (options := self._options(c)) is not None]
        managers = [options for options in found if is_manager(options)]
        for options in found:
            if not self._is_asked_for(options.parsed.program):
                continue
            self._outcome.containers += 1
            self._outcome.findings += options.findings
            if options.parsed.wants_help or options.parsed.wants_version:
                continue
            self._outcome.findings += check_volumes(options.container)
            if is_manager(options):
                self._outcome.findings += check_manager(options, self._library)
                self._outcome.choices += choices_of(options, self._library)
                self._outcome.findings += self._cluster.check(options.container, options.parsed, ())
                self._outcome.findings += check_listener(options, found)
            else:
                self._check_program(options, managers)
                self._outcome.findings += check_listener(options, found)

    def _is_asked_for(self, program: Program) -> bool:
        """Whether a program's rules are applied; the agent is both of those that it stands for."""
        if program is Program.AGENT:
            both = {Program.DEVICE_PLUGIN, Program.GPU_FEATURE_DISCOVERY}
            return not both.isdisjoint(self._programs)
        return program is Program.CONFIG_MANAGER or program in self._programs

    def _options(self, container: Container) -> Options | None:
        namespace = container.pod.object.namespace

        def lookup(name: str) -> dict[str, str] | None:
            found = self._library.find(name, namespace) if name else None
            return None if found is None else found.texts()

        line = command_line(container, lookup)
        if line is not None:
            return read_options(line)
        program = hidden_program(container)
        if program is not None:
            message = f"not checked: {program} is started by a shell"
            place = container.value.get("command").place
            finding = Finding(Severity.NOTE, place, message, "", container.title)
            self._outcome.findings.append(finding)
        return None

    def _mark_as_used(self, pod: Pod) -> None:
        for volume in pod.volumes().values():
            for reference in volume.config_maps():
                self._library.find(reference.get("name").text, pod.object.namespace)

    def _check_program(self, options: Options, managers: Sequence[Options]) -> None:
        container, parsed = options.container, options.parsed
        outcome = self._outcome
        outcome.programs.add(parsed.program)
        if parsed.program is Program.AGENT:
            outcome.findings += check_agent(options, self._library)
        if parsed.program in OFFERING:
            outcome.findings += _check_reports(options)
        configs = [] if parsed.command else list(self._configs(options, managers))
        outcome.findings += check_needs(container, parsed, configs)
        outcome.findings += self._cluster.check(container, parsed, configs)
        if parsed.program in OFFERING:
            outcome.configs_of_plugin += [(container, config) for config in configs]

    def _configs(self, options: Options, managers: Sequence[Options]) -> Iterator[Config]:
        """What the container may be told by its file, or without one."""
        if options.parsed.program is Program.AGENT and follows_label(options.parsed):
            found = Found(choices_of(options, self._library))
        else:
            found = configurations_of(options.container, options, self._library, managers)
        self._outcome.findings += found.findings
        for source in found.sources:
            yield from self._check_source(source, options)
        if not found.sources:
            checked = check_without_file(options.parsed)
            self._outcome.findings += [_placed(options, each) for each in checked.findings]
            if checked.loaded is not None:
                yield checked.loaded.config

    def _check_source(self, source: Source, options: Options) -> Iterator[Config]:
        outcome = self._outcome
        checked = check(source, options.parsed)
        own = [f for f in checked.findings if not f.place.file or not f.subject]
        outcome.findings += [_placed(options, finding) for finding in own]
        others = [finding for finding in checked.findings if finding not in own]
        outcome.of_configurations.append((options.parsed.program, others))
        if source not in outcome.sources:
            outcome.sources.append(source)
        if checked.loaded is not None:
            yield checked.loaded.config

    def _check_daemons(self) -> None:
        """MPS without its daemons: the plugin would wait for ever."""
        if Program.MPS_CONTROL_DAEMON in self._outcome.programs:
            return
        for container, config in self._outcome.configs_of_plugin:
            if config.uses_mps():
                message = "MPS is asked for, and no mps-control-daemon is among what was given"
                hint = "the plugin waits for it; with the chart it comes with mps.enabled"
                self._outcome.findings.append(
                    Finding(Severity.WARNING, container.value.place, message, hint, container.title)
                )


def _check_reports(options: Options) -> Iterator[Finding]:
    """Reports of health need the node's name; the program does not start without it."""
    parsed = options.parsed
    if parsed.strings("report-health") and not parsed.text("node-name"):
        message = "the node has to be named, but --node-name is empty"
        hint = "set NODE_NAME from the field spec.nodeName"
        yield options.finding(Severity.ERROR, "report-health", message, hint)


def _placed(options: Options, finding: Finding) -> Finding:
    """The finding about a flag or a variable, where that stands."""
    origin = finding.place.path
    if finding.place.file:
        return replace(finding, subject=options.container.title)
    place = options.places.get(origin, options.container.value.place)
    return replace(
        finding,
        place=place,
        message=f"{origin}: {finding.message}" if origin else finding.message,
        subject=options.container.title,
    )


def united_findings(outcome: Outcome) -> list[Finding]:
    """All that was found, each configuration's findings once."""
    programs = dict.fromkeys(program for program, _ in outcome.of_configurations)
    return [*outcome.findings, *united(outcome.of_configurations, programs)]
