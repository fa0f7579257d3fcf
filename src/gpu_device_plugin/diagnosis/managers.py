"""What config-manager, or the agent, is told: whether there is a configuration for every node."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.config.validate import problems_for_agent, problems_for_manager
from gpu_device_plugin.diagnosis.config_maps import Library, directory_of
from gpu_device_plugin.diagnosis.findings import Finding, Severity
from gpu_device_plugin.diagnosis.options import Options
from gpu_device_plugin.watch.profiles import NAMED_DEFAULT, Fallback


def check_manager(options: Options, library: Library) -> Iterator[Finding]:
    """Everything about a config-manager but its single flags and variables."""
    parsed = options.parsed
    for error in problems_for_manager(parsed):
        yield options.finding(Severity.ERROR, "", error.message, error.hint)
    yield from _check_directory(options, library)
    if parsed.flag("send-signal"):
        yield from _check_signal(options)


def check_agent(options: Options, library: Library) -> Iterator[Finding]:
    """What an agent is told of the label that it follows, if it follows one."""
    parsed = options.parsed
    if not parsed.text("config-file-srcdir"):
        return
    for error in problems_for_agent(parsed):
        yield options.finding(Severity.ERROR, "", error.message, error.hint)
    yield from _check_directory(options, library)
    if parsed.text("config-file"):
        message = "without effect: the label of the node chooses the configuration"
        hint = "leave out it or --config-file-srcdir (CONFIG_FILE_SRCDIR)"
        yield options.finding(Severity.WARNING, "config-file", message, hint)


def _check_directory(options: Options, library: Library) -> Iterator[Finding]:
    """Whether there are configurations to choose from, and one for every node."""
    parsed, container = options.parsed, options.container
    for fallback in parsed.strings("fallback-strategies"):
        if fallback and fallback not in list(Fallback):
            message = f"{quote(fallback)} is not a fallback strategy"
            hint = f"allowed: {', '.join(Fallback)}"
            yield options.finding(Severity.ERROR, "fallback-strategies", message, hint)
    directory = parsed.text("config-file-srcdir")
    if not directory:
        return
    mount = container.mount_of(directory)
    if mount is None:
        message = f"nothing is mounted at {directory}, where the configurations are looked for"
        yield options.finding(Severity.ERROR, "config-file-srcdir", message, "mount a ConfigMap")
        return
    if mount.sub_path:
        message = f"a mount with subPath, such as {directory}, stays as it is when files change"
        hint = "mount the whole ConfigMap"
        yield options.finding(Severity.WARNING, "config-file-srcdir", message, hint)
    found = directory_of(container, mount, library)
    yield from found.findings
    if found.is_complete and any(() if mount.volume is None else mount.volume.config_maps()):
        yield from _check_choice(options, list(found.files))


def _check_signal(options: Options) -> Iterator[Finding]:
    parsed = options.parsed
    number = parsed.integer("signal")
    if number not in {0, *signal.valid_signals()}:
        message = f"{number} is not a signal"
        yield options.finding(Severity.ERROR, "signal", message, "such as 1 for SIGHUP")
    spec = options.container.pod.spec
    if not (spec.get("shareProcessNamespace").is_true() or spec.get("hostPID").is_true()):
        message = f"{parsed.text('process-to-signal')} is out of reach for its signal"
        hint = "shareProcessNamespace: true, or --send-signal=false"
        place = Place(spec.place.file, spec.place.line, spec.place.path)
        yield Finding(Severity.ERROR, place, message, hint, options.container.title)


def _check_choice(options: Options, names: list[str]) -> Iterator[Finding]:
    """Whether a node without the label gets a configuration."""
    parsed = options.parsed
    there = f"there are {', '.join(names)}"
    default = parsed.text("default-config")
    if default:
        if default not in names:
            message = f"there is no configuration {quote(default)}"
            yield options.finding(Severity.ERROR, "default-config", message, there)
        return
    fallbacks = parsed.strings("fallback-strategies")
    if not names and Fallback.EMPTY not in fallbacks:
        message = "there are no configurations"
        yield options.finding(Severity.ERROR, "config-file-srcdir", message, "")
    elif not (
        Fallback.EMPTY in fallbacks
        or (Fallback.SINGLE in fallbacks and len(names) == 1)
        or (Fallback.NAMED in fallbacks and NAMED_DEFAULT in names)
    ):
        message = f"a node without the label {parsed.text('node-label')} gets no configuration"
        hint = f"set --default-config (DEFAULT_CONFIG); {there}"
        yield options.finding(Severity.NOTE, "node-label", message, hint)
