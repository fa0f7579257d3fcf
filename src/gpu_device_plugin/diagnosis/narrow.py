"""One thing of an explanation: a resource, a GPU or MIG device, or a label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gpu_device_plugin.config.names import PREFIX
from gpu_device_plugin.diagnosis.explanation import Explanation
from gpu_device_plugin.diagnosis.offers import Offered
from gpu_device_plugin.errors import ConfigError

_WORD = re.compile(r"(?:gpu|mig|mig device)[ -]?([0-9]+(?::[0-9]+)?)", re.IGNORECASE)


def narrow(explanation: Explanation, things: Sequence[str]) -> Explanation:
    """What an explanation says about some things; all of it if there are none.

    Raises:
        ConfigError: the node has no such thing.
    """
    if not things:
        return explanation
    for thing in things:
        if not _knows(explanation, thing):
            raise ConfigError(f"the node has no {thing}", _there(explanation))
    labels = explanation.labels
    if labels is not None:
        rows = tuple(row for row in labels.rows if _is_any(PREFIX + row.key, things))
        labels = replace(labels, rows=rows)
    devices = tuple(device for device in explanation.devices if _is_device(device, things))
    titles = {device.what for device in devices}
    return replace(
        explanation,
        resources=tuple(r for r in explanation.resources if _is_any(r.name, things)),
        devices=devices,
        cdi=tuple(name for name in explanation.cdi if name.device in titles),
        labels=labels,
    )


def _knows(explanation: Explanation, thing: str) -> bool:
    one = [thing]
    labels = () if explanation.labels is None else explanation.labels.rows
    return (
        any(_is_any(resource.name, one) for resource in explanation.resources)
        or any(_is_device(device, one) for device in explanation.devices)
        or any(_is_any(PREFIX + row.key, one) for row in labels)
    )


def _is_any(name: str, things: Sequence[str]) -> bool:
    """Whether a resource or label is meant, with its prefix or without."""
    return name in things or name.removeprefix(PREFIX) in things


def _is_device(device: Offered, things: Sequence[str]) -> bool:
    number = device.what.rpartition(" ")[2]
    for thing in things:
        word = _WORD.fullmatch(thing)
        if (word[1] if word else thing) in {number, device.id or None}:
            return True
    return False


def _there(explanation: Explanation) -> str:
    resources = [resource.name for resource in explanation.resources]
    devices = [device.what for device in explanation.devices]
    return f"there are: {', '.join([*resources, *devices]) or 'none'}, and labels"
