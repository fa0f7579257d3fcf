"""What changes on a node if another configuration is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpu_device_plugin.config.model import SharingStrategy
from gpu_device_plugin.diagnosis.explanation import Explanation
from gpu_device_plugin.resources.sharing import WORDS


class Change(StrEnum):
    """What happens to a thing."""

    APPEARS = "appears"
    VANISHES = "vanishes"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class Difference:
    """A thing that is not the same afterwards."""

    change: Change
    kind: str
    """``resource``, ``device``, ``label`` or ``request``."""
    name: str
    before: str = ""
    after: str = ""
    effect: str = ""
    """What that means for pods."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON object."""
        return {
            "change": self.change.value,
            "kind": self.kind,
            "name": self.name,
            "before": self.before or None,
            "after": self.after or None,
            "effect": self.effect or None,
        }


def compare(before: Explanation, after: Explanation) -> tuple[Difference, ...]:
    """Everything that is not the same, resources first."""
    return (
        *_differences("resource", _resources(before), _resources(after)),
        *_differences("device", _devices(before), _devices(after)),
        *_differences("label", _labels(before), _labels(after)),
        *_differences("request", _answers(before), _answers(after)),
    )


def _differences(
    kind: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        old, new = before.get(name, ""), after.get(name, "")
        if old == new and (name in before) == (name in after):
            continue
        change = Change.CHANGES
        if name not in before:
            change = Change.APPEARS
        elif name not in after:
            change = Change.VANISHES
        effect = _effect(change, old) if kind == "resource" else ""
        yield Difference(change, kind, name, old, new, effect)


_EFFECTS = {
    Change.APPEARS: "",
    Change.VANISHES: "pods that have it go on running; new ones that ask for it stay pending",
    Change.CHANGES: "pods that have it go on running, also where there are fewer now",
}
_BY_MPS = f", {WORDS[SharingStrategy.MPS]}"


def _effect(change: Change, before: str) -> str:
    if before.endswith(_BY_MPS):
        return "its MPS daemon ends, and with it the work of containers that use it"
    return _EFFECTS[change]


def _resources(explanation: Explanation) -> dict[str, str]:
    texts = {}
    for resource in explanation.resources:
        is_shared = resource.sharing is not SharingStrategy.NONE
        words = f", {WORDS[resource.sharing]}" if is_shared else ""
        texts[resource.name] = f"{resource.count} = {resource.sum}{words}"
    return texts


def _devices(explanation: Explanation) -> dict[str, str]:
    return {d.what: d.resource or "not offered" for d in explanation.devices}


def _labels(explanation: Explanation) -> dict[str, str]:
    return {} if explanation.labels is None else dict(explanation.labels.published)


def _answers(explanation: Explanation) -> dict[str, str]:
    return {
        f"{a.request.resource}={a.request.size}": a.problem
        or ", ".join(f"{part.name}={part.value}" for part in a.parts)
        for a in explanation.answers
    }
