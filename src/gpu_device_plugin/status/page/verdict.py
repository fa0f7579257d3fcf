"""The answer to the first question: is this node well, and if not, what is wrong since when?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.status.model import Hardware, Illness, NodeStatus
from gpu_device_plugin.status.page.state import (
    GpuView,
    Level,
    cause_of,
    condition_of,
    mig_devices,
    view_gpus,
)
from gpu_device_plugin.status.page.words import count, gpus_text

WATCHING = "watching"
PREDICATES = {"needs a reset": "need a reset", "cannot be watched": "cannot be watched"}
"""Conditions that are predicates themselves, for one GPU and for several."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that is wrong, or worth knowing."""

    level: Level
    text: str
    first: float = 0
    last: float = 0
    count: int = 0
    """How many events; 0 where nothing is counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a node in a sentence, and what belongs to it."""

    level: Level
    headline: str
    times: Point | None = None
    """When what the headline says has happened."""
    points: tuple[Point, ...] = ()
    """What the headline does not say, the worst first."""


@dataclass(frozen=True, slots=True)
class _Hit:
    """A GPU or one of its MIG devices that something is wrong with."""

    gpu: int
    slice: str
    """The index of the MIG device; empty for the GPU."""
    condition: str
    cause: str
    illness: Illness | None


def judge(status: NodeStatus) -> Verdict:
    """The verdict on a node."""
    views = view_gpus(status)
    sick = list(_sick(views, status.hardware))
    others = list(_others(status))
    if len(sick) == 1:
        level, headline, times = Level.BAD, sick[0].text, sick[0] if sick[0].first else None
        points = others
    else:
        level, headline, times = *_headline(status, views, sick), None
        points = sick + others
    points.sort(key=lambda point: -point.level)
    worst = max((point.level for point in points), default=Level.GOOD)
    return Verdict(max(level, worst), headline, times, tuple(points))


def _headline(
    status: NodeStatus, views: Sequence[GpuView], sick: Sequence[Point]
) -> tuple[Level, str]:
    hardware = status.hardware
    if hardware is None:
        if status.ready.ok and status.live.ok:
            return Level.GOOD, f"{status.program} works"
        return Level.WARN, f"{status.program} is not ready"
    if hardware.problem:
        return Level.BAD, f"No GPUs: {hardware.problem}"
    total = len(views) + len(_unread(views, hardware))
    if sick:
        well = sum(view.level < Level.BAD for view in views)
        return Level.BAD, f"{total - well} of {total} GPUs are not healthy"
    level, text = _praise(views, hardware) if total else (Level.NOTE, "This node has no GPUs")
    if status.ready.ok:
        return level, text
    return Level.WARN, f"{text}, but {status.program} is not ready"


def _praise(views: Sequence[GpuView], hardware: Hardware) -> tuple[Level, str]:
    slices = sum(1 for _ in mig_devices(views))
    what = count(len(views), "GPU") + (f" and {count(slices, 'MIG device')}" if slices else "")
    if not _is_watched(hardware):
        return Level.NOTE, f"{what}, health not watched"
    if len(views) == 1 and not slices:
        return Level.GOOD, "The GPU is healthy"
    return Level.GOOD, f"All {what} healthy" if len(views) > 1 else f"{what} healthy"


def _is_watched(hardware: Hardware) -> bool:
    return hardware.watch in {WATCHING, ""}


def _sick(views: Sequence[GpuView], hardware: Hardware | None) -> Iterator[Point]:
    """What is wrong with GPUs and MIG devices; those that have the same go together."""
    groups = dict[tuple[str, str], list[_Hit]]()
    for view in views:
        for hit in _hits(view):
            groups.setdefault((hit.condition, hit.cause), []).append(hit)
    for hits in groups.values():
        known = [hit.illness for hit in hits if hit.illness is not None]
        yield Point(
            Level.BAD,
            _sentence(hits),
            first=min((illness.first for illness in known), default=0),
            last=max((illness.last for illness in known), default=0),
            # What hits several devices is one event: the count is that of the one hit most.
            count=max((illness.count for illness in known), default=0),
        )
    if hardware is not None:
        for sentence in _unread(views, hardware):
            yield Point(Level.BAD, sentence)


def _hits(view: GpuView) -> Iterator[_Hit]:
    illness = view.illness
    if view.gpu.lost or (view.is_hit_as_a_whole and illness is not None):
        cause = view.gpu.lost if illness is None else cause_of(illness)
        yield _Hit(view.gpu.index, "", view.condition, cause, illness)
        return
    for device in view.ill:
        part, illness = device.index if device.mig else "", device.illness
        if illness is None:
            yield _Hit(view.gpu.index, part, "unhealthy", "", None)
        else:
            yield _Hit(view.gpu.index, part, condition_of(illness), cause_of(illness), illness)


def _sentence(hits: Sequence[_Hit]) -> str:
    condition, cause = hits[0].condition, hits[0].cause
    gpus = {hit.gpu for hit in hits if not hit.slice}
    # 4:9 stands before 4:10.
    slices = sorted((hit.slice for hit in hits if hit.slice), key=lambda each: (len(each), each))
    subjects, number = list[str](), len(gpus) + len(slices)
    if gpus:
        subjects.append(gpus_text(gpus))
    if slices:
        kind = "MIG device" if len(slices) == 1 else "MIG devices"
        subjects.append(f"{kind} {', '.join(slices)}")
    if condition in PREDICATES:
        predicate = condition if number == 1 else PREDICATES[condition]
    else:
        predicate = f"{'is' if number == 1 else 'are'} {condition}"
    # NVML's own word for a lost GPU says nothing more.
    says_nothing = not cause or cause.casefold().removeprefix("gpu is ") == condition
    sentence = f"{' and '.join(subjects)} {predicate}"
    return sentence if says_nothing else f"{sentence}: {cause}"


def _unread(views: Sequence[GpuView], hardware: Hardware) -> list[str]:
    """GPUs that cannot be read, but for those that are known from before and marked lost."""
    lost = tuple(f"GPU {view.gpu.index} " for view in views if view.gpu.lost)
    return [text for text in hardware.unreadable if not text.startswith(lost)]


def _others(status: NodeStatus) -> Iterator[Point]:
    """What is wrong besides GPUs, each once."""
    for reason in status.live.reasons:
        yield Point(Level.BAD, f"Not alive: {reason}")
    hardware = status.hardware
    problem = "" if hardware is None else hardware.problem
    for reason in status.ready.reasons:
        if not problem or problem not in reason:
            yield Point(Level.WARN, f"Not ready: {reason}")
    yield from _parts(status)
    if status.pods.problem:
        yield Point(Level.NOTE, f"Who holds what is not told: {status.pods.problem}")
    if hardware is not None and hardware.gpus and not _is_watched(hardware):
        yield Point(Level.NOTE, f"Health of the GPUs is not watched: {hardware.watch}")


def _parts(status: NodeStatus) -> Iterator[Point]:
    """Configuration, labels and MPS daemons."""
    wanted = "" if status.configuration is None else status.configuration.problem
    if wanted and not any(wanted in reason for reason in status.ready.reasons):
        yield Point(Level.WARN, f"Configuration: {wanted}")
    if status.labelling is not None and status.labelling.problem:
        yield Point(Level.WARN, f"Labels: {status.labelling.problem}")
    for daemon in status.mps:
        if not daemon.ready:
            yield Point(Level.WARN, f"MPS daemon of {daemon.resource}: {daemon.detail}")
