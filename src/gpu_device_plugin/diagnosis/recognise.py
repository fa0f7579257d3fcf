"""What a file is: a configuration, manifests, values of a chart, or something else."""

from __future__ import annotations

import re
from enum import StrEnum

from gpu_device_plugin.config.document import Node
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.schema import walk
from gpu_device_plugin.diagnosis.sources import Source
from gpu_device_plugin.errors import ConfigError


class Kind(StrEnum):
    """What a file is."""

    CONFIGURATION = "configuration"
    MANIFESTS = "manifests"
    VALUES = "values"
    """Of a Helm chart."""
    TEMPLATE = "template"
    """Of a Helm chart, not rendered."""
    UNKNOWN = "unknown"
    """YAML without anything that speaks for a configuration, or no YAML at all."""


SECTIONS = frozenset(child.name for child in SCHEMA.children) - {"version", "resources"}
"""Keys of the top level that hardly any other file has."""
SPOKEN = SECTIONS | {key.name for _, key in walk(SCHEMA) if not key.name.islower()}
"""Keys that speak for a configuration wherever they stand."""
VALUES = frozenset({"devicePlugin", "gfd", "nfd", "image", "config", "nameOverride", "cdi", "mps"})
"""Keys of the chart's values; a configuration has none of them at its top level."""

# It begins with the key: a search that began with blanks would try each of a million in vain.
_SPOKEN = re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(SPOKEN))})[\"']?[ \t]*:")
_MANIFEST = re.compile(r"^(?:- )?[ ]*[\"']?(apiVersion|kind)[\"']?[ \t]*:", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{-?\s*[.$\w\"(/]")


def recognise(source: Source) -> Kind:
    """What a file is; one that cannot be read as YAML, by what it looks like."""
    text = source.data.decode("utf-8", "replace")
    try:
        root = source.document().root
    except ConfigError:
        if _TEMPLATE.search(text):
            return Kind.TEMPLATE
        if len(set(_MANIFEST.findall(text))) > 1:
            return Kind.MANIFESTS
        return Kind.CONFIGURATION if speaks_of_configuration(text) else Kind.UNKNOWN
    return _of_tree(root, text)


def _of_tree(root: Node, text: str) -> Kind:
    keys = set(root.value) if isinstance(root.value, dict) else set[str]()
    if {"apiVersion", "kind"} <= keys:
        return Kind.MANIFESTS
    if root.value is None and len(set(_MANIFEST.findall(text))) > 1:
        return Kind.MANIFESTS  # only the first document is empty
    if keys & SECTIONS or "version" in keys:
        is_other = keys & VALUES and not keys & SECTIONS
        return Kind.VALUES if is_other else _if_spoken(text, or_empty="version" in keys)
    if keys & VALUES:
        return Kind.VALUES
    return _if_spoken(text, or_empty=root.value is None)


def _if_spoken(text: str, *, or_empty: bool) -> Kind:
    return Kind.CONFIGURATION if or_empty or speaks_of_configuration(text) else Kind.UNKNOWN


def speaks_of_configuration(text: str) -> bool:
    """Whether any key in the text is one that hardly any other file has."""
    return _SPOKEN.search(text) is not None
