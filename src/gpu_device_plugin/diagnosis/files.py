"""The files that an operator names: single ones, directories of them, standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.diagnosis.findings import Finding, Severity

STDIN = "-"
STDIN_NAME = "<stdin>"
"""What messages call it."""
LARGEST = 64 * 1024 * 1024
"""Bytes of a file that are read: a rendered chart has a few hundred thousand."""
ENDINGS = ("", ".yaml", ".yml", ".json", ".template")
"""Of files in directories, where these are not the mounts of ConfigMaps."""
NO_FILE = "no file in it can be checked"
NO_FILE_HINT = "looked at: mounts of ConfigMaps, and *.yaml, *.yml, *.json, names without ending"
MOUNTED = "..data"
"""What the kubelet has in each mount of a ConfigMap."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file and its contents."""

    file: str
    data: bytes = field(repr=False)
    is_named: bool = True
    """Whether it was asked for itself, and not found in a directory."""


def read_texts(paths: Iterable[str]) -> Iterator[Text | Finding]:
    """Every file, or what is wrong with it, in the order of the paths and of their names."""
    for path in paths:
        if path == STDIN:
            yield _read_stdin()
        elif os.path.isdir(path):
            found = _read_directory(path)
            yield next(found, Finding(Severity.ERROR, Place(path), NO_FILE, NO_FILE_HINT))
            yield from found
        else:
            yield _read(path)


def _read_stdin() -> Text | Finding:
    data = sys.stdin.buffer.read(LARGEST + 1)
    if not data.strip():  # without pipefail a shell does not mind that helm has failed
        return Finding(
            Severity.ERROR, Place(STDIN_NAME), "nothing came; has what writes it failed?"
        )
    return _limited(STDIN_NAME, data)


def _read_directory(directory: str) -> Iterator[Text | Finding]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield _unreadable(directory, error)
        return
    if any(entry.name == "Chart.yaml" for entry in entries):
        message = "a chart is checked when it is rendered"
        hint = f"helm template NAME {directory} | gpu-node validate -"
        yield Finding(Severity.WARNING, Place(directory), message, hint)
        return
    is_mount = any(entry.name == MOUNTED for entry in entries)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _read_directory(entry.path)
        elif entry.is_file() and (is_mount or os.path.splitext(entry.name)[1] in ENDINGS):
            yield _read(entry.path, is_named=False)


def _read(path: str, *, is_named: bool = True) -> Text | Finding:
    try:
        with open(path, "rb") as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        return _unreadable(path, error)
    return _limited(path, data, is_named=is_named)


def _limited(file: str, data: bytes, *, is_named: bool = True) -> Text | Finding:
    if len(data) > LARGEST:
        hint = f"allowed: {LARGEST} bytes"
        return Finding(Severity.ERROR, Place(file), "the file is too large", hint)
    return Text(file, data, is_named)


def _unreadable(path: str, error: OSError | ValueError) -> Finding:
    reason = getattr(error, "strerror", None) or str(error)
    return Finding(Severity.ERROR, Place(path), f"cannot be read: {reason}")
