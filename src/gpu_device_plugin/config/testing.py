"""Configurations for tests, from text instead of files."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_device_plugin.config.grammar import parse
from gpu_device_plugin.config.load import Loaded, load
from gpu_device_plugin.config.options import Program

FILE = "f.yaml"
"""What the file is called in messages."""


def load_text(
    text: str | bytes | None = None,
    *argv: str,
    environ: Mapping[str, str] | None = None,
    program: Program = Program.DEVICE_PLUGIN,
) -> Loaded:
    """What a program loads, given the text of its configuration file, arguments and variables.

    Args:
        text: the contents of the file; None for no file.
        argv: arguments of the program.
        environ: its environment.
        program: which one.

    Raises:
        UsageError: an argument or variable cannot be read.
        ConfigError: the text cannot.
    """
    data = text.encode() if isinstance(text, str) else text
    file = [] if data is None else [f"--config-file={FILE}"]
    return load(parse(program, [*file, *argv], environ or {}), read=lambda _: data or b"")
