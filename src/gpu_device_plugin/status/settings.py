"""The running configuration as a list of values, each with what has set it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.render import render
from gpu_device_plugin.status.model import Configuration, Reloading, Setting

HASH_DIGITS = 16


def describe_configuration(
    loaded: Loaded, *, profile: str = "", reload: Reloading | None = None, problem: str = ""
) -> Configuration:
    """What a program was told.

    Args:
        loaded: the configuration in force.
        profile: its name where a label of the node has chosen it.
        reload: the last reload, if there was one.
        problem: why what is wanted is not in force.
    """
    text = render(loaded.config)
    return Configuration(
        file=loaded.file,
        profile=profile,
        hash=_digest(text),
        settings=tuple(_settings(loaded, json.loads(text))),
        warnings=tuple(str(warning) for warning in loaded.warnings),
        reload=reload,
        problem=problem,
    )


def configuration_hash(loaded: Loaded) -> str:
    """What tells whether two programs were told the same (`Configuration.hash`)."""
    return _digest(render(loaded.config))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:HASH_DIGITS]


def _settings(loaded: Loaded, values: dict[str, Any]) -> Iterator[Setting]:
    for path, value in leaves(values):
        origin = loaded.origin(path)
        yield Setting(
            path, json.dumps(value, ensure_ascii=False), "" if origin is None else _name(origin)
        )


def _name(origin: Place) -> str:
    """``FILE:LINE`` without the key, which stands beside it; flags and variables as they are."""
    return f"{origin.file}:{origin.line}" if origin.file and origin.line else str(origin)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no mapping and no list of mappings, with its path."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}[{number}]")
    elif path:
        yield path, value
