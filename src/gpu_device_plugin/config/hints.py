"""Guesses at what was meant by a key of the configuration file that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.config.flags import dashed
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.keys_extensions import EXTENSIONS
from gpu_device_plugin.config.options import PROGRAMS, Option
from gpu_device_plugin.config.schema import Key, walk
from gpu_device_plugin.config.text import choices, closest, fold


def hint_for(parent: Key, name: str) -> str:
    """What may have been meant by a key below the parent; empty if nothing comes near."""
    children = {child.name for child in parent.children}
    near = closest(name, children)
    if fold(near) == fold(name) or (near and parent.ours):
        return f"did you mean {near}?"
    homes = list(_homes(name))
    if homes:
        originals = [home for home in homes if not _is_ours(home)]
        return f"it belongs to {choices(originals or homes)}"
    paths = list(_respelled(name))
    if paths:
        return f"did you mean {choices(paths)}?"
    option = _option(name)
    if option is not None and option.config_path:
        return f"did you mean {option.config_path}?"
    if option is not None:
        return f"set it by {dashed(option.name)} or {choices(option.env)}"
    return f"did you mean {near}?" if near else ""


def _homes(name: str) -> Iterator[str]:
    """The mappings that have such a key."""
    for path, key in walk(SCHEMA):
        if key.name == name:
            yield path.rpartition(".")[0] or "the top level"


def _is_ours(path: str) -> bool:
    return path.partition(".")[0] == EXTENSIONS.name


def _respelled(name: str) -> Iterator[str]:
    """The keys with that name in another spelling, such as ``mig-strategy``."""
    for path, key in walk(SCHEMA):
        if fold(key.name) == fold(name):
            yield path


def _option(name: str) -> Option | None:
    """The option whose name, or variable, has been used as a key."""
    for spec in PROGRAMS.values():
        for option in spec.options:
            if option.env and fold(name) in map(fold, (*option.names, *option.env)):
                return option
    return None
