"""What all programs share: options, help, version, exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence

from gpu_device_plugin import __version__
from gpu_device_plugin.config.grammar import Parsed, parse
from gpu_device_plugin.config.help import help_text
from gpu_device_plugin.config.load import Loaded, load
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.options_shared import LOG_FORMAT
from gpu_device_plugin.errors import UsageError, UserError
from gpu_device_plugin.logs import LogFormat, set_up_logging
from gpu_device_plugin.programs.streams import fill_standard_streams

log = logging.getLogger("gpu_device_plugin")


def run_program(
    program: Program, work: Callable[[Parsed], None], argv: Sequence[str] | None = None
) -> int:
    """Parses the options, does the work and turns what goes wrong into an exit code.

    Returns:
        0, or 1 after an error that a user can mend, which is one line in the log.
    """
    fill_standard_streams(needs_stdout=False)
    set_up_logging(_format_for_mistakes())
    try:
        parsed = parse(program, sys.argv[1:] if argv is None else argv, os.environ)
    except UsageError as error:
        log.error("%s", error)
        _print(f"Incorrect Usage: {error}\n\n{help_text(program)}")
        return 1
    if parsed.wants_help:
        return _print(help_text(program, parsed.command))
    if parsed.wants_version:
        return _print(version_text(program))
    level = logging.getLevelNamesMapping()[parsed.text("log-level").upper()]
    set_up_logging(LogFormat(parsed.text("log-format")), level)
    if ignored := parsed.ignored():
        log.warning("%s", ignored)
    return _exit_code(work, parsed)


def _format_for_mistakes() -> LogFormat:
    """How a mistake in the options is logged, before they say how."""
    (variable,) = LOG_FORMAT.env
    given = os.environ.get(variable, "")
    return LogFormat(given) if given in LOG_FORMAT.allowed else LogFormat.TEXT


def _exit_code(work: Callable[[Parsed], None], parsed: Parsed) -> int:
    try:
        work(parsed)
    except UserError as error:
        log.error("%s", error)
        return 1
    except OSError as error:
        log.error("the operating system refuses: %s", error)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _print(text: str) -> int:
    """Writes to stdout, whatever that is; returns the exit code."""
    try:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        log.error("stdout cannot be written: %s", error.strerror)
        # The interpreter flushes once more at its end, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return 0


def version_text(program: Program) -> str:
    """Name and version, and the commit where one was baked in at build time."""
    commit = os.environ.get("GPU_DEVICE_PLUGIN_COMMIT", "")
    text = f"{PROGRAMS[program].title} version v{__version__}\n"
    return text + (f"commit: {commit}\n" if commit else "")


def load_config(parsed: Parsed) -> Config:
    """The merged configuration alone; see `load_with_origins`."""
    return load_with_origins(parsed).config


def load_with_origins(parsed: Parsed) -> Loaded:
    """The merged configuration and what set its values; what is odd in it goes to the log.

    Raises:
        ConfigError: the configuration file cannot be used.
    """
    loaded = load(parsed)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    return loaded
