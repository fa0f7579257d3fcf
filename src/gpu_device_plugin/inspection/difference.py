"""How two specifications differ in what they do to containers, not in their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import zip_longest

from gpu_device_plugin.cdi.model import Spec
from gpu_device_plugin.inspection.lines import (
    Line,
    Lines,
    device_lines,
    edit_lines,
    head_lines,
    shown,
)


class Sign(StrEnum):
    """What begins a line of a unified difference."""

    BOTH = " "
    BEFORE = "-"
    AFTER = "+"


@dataclass(frozen=True, slots=True)
class Change:
    """A line of one of the two, or one that places what follows."""

    sign: Sign
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """What differs in one device, or in what all devices share."""

    title: str
    changes: tuple[Change, ...]


def compare(before: Spec | None, after: Spec | None) -> tuple[Hunk, ...]:
    """The differences, none if both do the same to a container.

    Args:
        before: one specification; None if there is none.
        after: the other one.
    """
    old, new = _sections(before), _sections(after)
    names = [*dict.fromkeys([*old, *new])]
    shared = [name for name in (_HEAD, _SHARED) if name in names]
    devices = sorted(name for name in names if name not in shared)
    hunks = (_hunk(name, old.get(name), new.get(name)) for name in (*shared, *devices))
    return tuple(hunk for hunk in hunks if hunk.changes)


_HEAD = "specification"
_SHARED = "every device"


def _sections(spec: Spec | None) -> dict[str, Lines]:
    if spec is None:
        return {}
    devices = {f"device {shown(device.name)}": device_lines(device) for device in spec.devices}
    return {_HEAD: head_lines(spec), _SHARED: edit_lines(spec.edits), **devices}


def _hunk(name: str, before: Lines | None, after: Lines | None) -> Hunk:
    title = name
    if name not in {_HEAD, _SHARED}:
        title += ": to be added" if before is None else ""
        title += ": to be removed" if after is None else ""
    pairs = zip_longest(before or (), after or (), fillvalue=())
    return Hunk(title, tuple(change for pair in pairs for change in _changes(*pair)))


def _changes(before: Sequence[Line], after: Sequence[Line]) -> Iterator[Change]:
    """Lines that are only on one side, each below the hook that it belongs to."""
    owner = ""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        sides = ((Sign.BEFORE, before[start:end]), (Sign.AFTER, after[new_start:new_end]))
        for sign, line in ((sign, line) for sign, lines in sides for line in lines):
            if line.owner and line.owner != owner:
                yield Change(Sign.BOTH, line.owner)
            owner = line.owner or line.text
            yield Change(sign, line.text)
