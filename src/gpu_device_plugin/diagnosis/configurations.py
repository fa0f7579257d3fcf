"""All that the programs have to say about a configuration, by their own rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpu_device_plugin.config.diagnostics import ConfigWarning, Place
from gpu_device_plugin.config.grammar import Parsed, parse
from gpu_device_plugin.config.load import MOST_FINDINGS, Loaded, load
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.validate import (
    Origins,
    problems_for_labels,
    problems_for_plugin,
    validate_mig_strategy,
)
from gpu_device_plugin.diagnosis.advice import advice_on
from gpu_device_plugin.diagnosis.findings import Finding, Severity, united
from gpu_device_plugin.diagnosis.sources import Source, what_of
from gpu_device_plugin.errors import ConfigError

READERS = (
    Program.DEVICE_PLUGIN,
    Program.GPU_FEATURE_DISCOVERY,
    Program.MPS_CONTROL_DAEMON,
)
"""The programs that read a configuration."""

OFFERING = frozenset({Program.DEVICE_PLUGIN, Program.AGENT})
"""The programs that offer devices to the kubelet."""

SOMEWHERE = {"MPS_ROOT": "/run/nvidia/mps", "NODE_NAME": "node"}
"""Variables that the programs get from their pods, which are not known here."""

_LABELLER, _MANAGER = Program.GPU_FEATURE_DISCOVERY, Program.CONFIG_MANAGER


def publishes_labels(parsed: Parsed) -> bool:
    """Whether a program labels the node."""
    is_agent = parsed.program is Program.AGENT
    return parsed.flag("publish-labels") if is_agent else parsed.program is _LABELLER


def follows_label(parsed: Parsed) -> bool:
    """Whether a label of the node chooses the configuration of a program, or for others."""
    is_agent = parsed.program is Program.AGENT
    return bool(parsed.text("config-file-srcdir")) if is_agent else parsed.program is _MANAGER


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration as one program reads it."""

    findings: tuple[Finding, ...]
    loaded: Loaded | None = None
    """Made of what is right in it; None if nothing can be read, or hardly anything is right."""


class _TooManyError(Exception):
    """Reading on would tell nobody anything new."""


def check_file(source: Source, programs: Iterable[Program] = READERS) -> list[Finding]:
    """What the programs say about a configuration of which no more is known."""
    asked = list(programs)
    checked = ((program, check(source, parse(program, [], SOMEWHERE))) for program in asked)
    return united(
        ((program, [_of_file(source, f) for f in c.findings]) for program, c in checked), asked
    )


def _of_file(source: Source, finding: Finding) -> Finding:
    """The finding at the file, if there is no better place."""
    if finding.place.file:
        return finding
    return replace(finding, place=source.place(Place()), subject=source.subject)


def check(source: Source, parsed: Parsed) -> Checked:
    """Looks at a configuration as one program does at its start, to the end.

    Args:
        source: the configuration.
        parsed: the command line and the environment of the program. What is wrong with them alone
            is found as well; its place has no file.
    """
    parsed = replace(
        parsed,
        values={**parsed.values, "config-file": source.file},
        origins={"config-file": "--config-file", **parsed.origins},
    )
    errors: list[ConfigError] = []

    def note(error: ConfigError) -> None:
        errors.append(error)
        if len(errors) >= MOST_FINDINGS:
            raise _TooManyError

    try:
        loaded = load(parsed, report=note, document=source.document)
    except _TooManyError:
        return Checked((*_errors(source, errors), _more_errors(source)))
    except ConfigError as error:
        return Checked(tuple(_errors(source, [*errors, error])))
    is_complete = not errors
    errors += semantic_errors(parsed, loaded.config, loaded.origins)
    findings = [*_errors(source, errors)]
    findings += [
        _of_warning(source, loaded, warning)
        for warning in loaded.warnings
        # Without the entries that are wrong the others have other numbers.
        if is_complete or warning.place.line or "[" not in warning.place.path
    ]
    if is_complete:
        findings += [
            source.finding(Severity.WARNING, place, message, hint)
            for place, message, hint in advice_on(loaded)
        ]
    return Checked(tuple(findings), loaded)


def _more_errors(source: Source) -> Finding:
    message = f"there may be more errors than the {MOST_FINDINGS} that are told"
    return source.finding(Severity.NOTE, Place(source.file), message)


def check_without_file(parsed: Parsed) -> Checked:
    """Looks at the options of a program whose file is not known; no place has a file."""
    parsed = replace(parsed, values={**parsed.values, "config-file": ""})
    loaded = load(parsed)
    findings = [
        Finding(Severity.WARNING, warning.place, warning.message, warning.hint)
        for warning in loaded.warnings
    ]
    for error in semantic_errors(parsed, loaded.config, loaded.origins):
        place, what = what_of(error)
        findings.append(Finding(Severity.ERROR, place or Place(), what, error.hint))
    return Checked(tuple(findings), loaded)


def semantic_errors(parsed: Parsed, config: Config, origins: Origins) -> Iterator[ConfigError]:
    """What a program cannot work with, though it can be read."""
    match parsed.program:
        case Program.DEVICE_PLUGIN:
            yield from problems_for_plugin(config, lambda: True, origins)
        case Program.AGENT:
            yield from problems_for_plugin(config, lambda: True, origins)
            if parsed.flag("publish-labels"):
                # An option that both have is told of once.
                flags = replace(config.flags, device_discovery_strategy=None)
                yield from problems_for_labels(replace(config, flags=flags), parsed, origins)
        case Program.GPU_FEATURE_DISCOVERY:
            yield from problems_for_labels(config, parsed, origins)
            yield from _mig_strategy(config, origins)
        case _:
            yield from _mig_strategy(config, origins)


def _mig_strategy(config: Config, origins: Mapping[str, Place]) -> Iterator[ConfigError]:
    try:
        validate_mig_strategy(config, origins)
    except ConfigError as error:
        yield error


def _errors(source: Source, errors: Iterable[ConfigError]) -> Iterator[Finding]:
    for error in errors:
        place, what = what_of(error)
        if place is None or not place.file:  # a flag, a variable, or what is not set at all
            yield Finding(Severity.ERROR, place or Place(), what, error.hint)
        else:
            yield source.finding(Severity.ERROR, place, what, error.hint)


def _of_warning(source: Source, loaded: Loaded, warning: ConfigWarning) -> Finding:
    """What has no effect at all counts as an error, since whoever wrote it meant something."""
    severity = Severity.ERROR if warning.loses else Severity.WARNING
    place = warning.place
    if not place.file and place.path:
        return Finding(severity, place, warning.message, warning.hint)
    if not place.line:
        place = loaded.origin(place.path) or place
    return source.finding(severity, place, warning.message, warning.hint)
