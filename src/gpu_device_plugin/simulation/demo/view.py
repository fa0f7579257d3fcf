"""What the demonstration looks like: a picture of the node as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from gpu_device_plugin.hardware.model import Gpu
from gpu_device_plugin.simulation.demo.stage import LogLine, Picture, Side, Tone
from gpu_device_plugin.simulation.demo.text import (
    Align,
    Column,
    Line,
    Span,
    fit,
    head,
    length,
    pad,
    row,
    span,
)
from gpu_device_plugin.simulation.views import DeviceView, NodeView, ResourceView

WIDE = 112
"""Columns from which on there are more facts, and a log for each side."""
NARROW = 60
"""Columns from which on there is room for the address of the page."""
POD_COLOURS = ("36", "34", "35", "96", "94", "95")
"""Not green, yellow or red, which mean something."""
SIDE_COLOURS = {Side.NODE: "31", Side.PLUGIN: "35", Side.KUBELET: "36"}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs of the view, all of one cell."""

    well: str = "●"
    ill: str = "✖"
    taken: str = "■"
    free: str = "□"
    broken: str = "×"  # noqa: RUF001 - a sign, not a letter
    full: str = "━"
    rest: str = "─"
    border: str = "│"
    dot: str = "·"
    ellipsis: str = "…"
    done: str = "✔"

    def all(self) -> str:
        """All of them in a row."""
        return "".join(getattr(self, name) for name in self.__slots__)


UNICODE = Glyphs()
ASCII = Glyphs("*", "!", "#", ".", "x", "=", "-", "|", "-", ">", "+")


def render(picture: Picture, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Line]:
    """The whole screen: no more lines than fit, none wider than it."""
    lines = [
        _title(picture, width, glyphs),
        _progress(picture, width, glyphs),
        *_scene(picture),
        (),
        *gpu_table(picture, width, glyphs),
        (),
        *resource_table(picture.node, width, glyphs),
        (),
    ]
    log = _logs if width >= WIDE else _log
    lines.extend(log(picture, width, height - len(lines), glyphs))
    return [fit(line, width, glyphs.ellipsis) for line in lines[:height]]


def _title(picture: Picture, width: int, glyphs: Glyphs) -> Line:
    dot = f" {glyphs.dot} "
    inventory = picture.inventory
    names = {gpu.name for gpu in inventory.gpus}
    facts = [
        picture.machine.partition(" ")[0] or "simulated node",
        f"{len(inventory.gpus)} x {', '.join(sorted(names))}",
        f"driver {inventory.driver_version}",
    ]
    if width >= WIDE:
        facts.append(f"CUDA {inventory.cuda_driver_version // 1000}")
    minutes, seconds = divmod(int(picture.seconds), 60)
    clock = f" {minutes}:{seconds:02d}"
    hint = "  Ctrl-C ends it  " if width >= WIDE else ""
    left = (span("gpu-node demo", Tone.STRONG), span(dot + dot.join(facts), Tone.QUIET))
    room = width - len(clock) - len(hint)
    return (*pad(left, room, ellipsis=glyphs.ellipsis), span(hint, Tone.QUIET), span(clock))


def _progress(picture: Picture, width: int, glyphs: Glyphs) -> Line:
    scene = picture.scene
    page = picture.page if width >= NARROW else ""
    room = width - len(page) - 1 if page else width
    done = room * scene.number // scene.total if scene.total else 0
    bar = (Span(glyphs.full * done, "36"), span(glyphs.rest * (room - done), Tone.QUIET))
    return (*bar, span(f" {page}")) if page else bar


def _scene(picture: Picture) -> Iterator[Line]:
    scene = picture.scene
    count = f"{scene.number}/{scene.total} " if scene.total else ""
    yield span(count, Tone.QUIET), span(scene.title, Tone.STRONG)
    yield span(" " * len(count)), span(scene.text)


@dataclass(frozen=True, slots=True)
class _GpuState:
    """A GPU and what the kubelet knows of it."""

    gpu: Gpu
    devices: tuple[DeviceView, ...]
    """The GPU itself, or its replicas."""
    is_connected: bool
    """Whether there is a plugin behind them."""
    cause: str
    """Why it is unhealthy, if it is."""


def _states(picture: Picture) -> list[_GpuState]:
    devices: dict[str, list[DeviceView]] = {gpu.uuid: [] for gpu in picture.inventory.gpus}
    connected = set[str]()
    for resource in picture.node.resources.values():
        for device in resource.devices:
            uuid = device.id.partition("::")[0]
            devices.setdefault(uuid, []).append(device)
            if resource.is_connected:
                connected.add(uuid)
    return [
        _GpuState(
            gpu,
            tuple(devices[gpu.uuid]),
            gpu.uuid in connected,
            picture.causes.get(gpu.uuid, "unhealthy"),
        )
        for gpu in picture.inventory.gpus
    ]


def gpu_table(picture: Picture, width: int, glyphs: Glyphs = UNICODE) -> list[Line]:
    """The GPUs, their replicas and who holds them."""
    states = _states(picture)
    wide = width >= WIDE
    cells = max((len(state.devices) for state in states), default=0)
    columns = [
        Column("GPU", 3, Align.RIGHT),
        Column("MODEL", 21),
        *([Column("UUID", 12), Column("PCI", 7)] if wide else []),
        Column("NUMA", 4, Align.RIGHT),
        Column("HEALTH", 11),
        Column("REPLICAS" if cells > 1 else "USE", min(max(8, 2 * cells - 1), width // 4)),
        Column("HELD BY", 0),
    ]
    return [
        head(columns, width, glyphs.ellipsis),
        *(
            row(columns, _cells(state, glyphs, wide=wide), width, glyphs.ellipsis)
            for state in states
        ),
    ]


def _cells(state: _GpuState, glyphs: Glyphs, *, wide: bool) -> list[Line]:
    gpu = state.gpu
    more: list[Line] = [
        (span(gpu.uuid[:12], Tone.QUIET),),
        (span(gpu.pci_bus_id[9:], Tone.QUIET),),
    ]
    return [
        (span(str(gpu.index)),),
        (span(gpu.name),),
        *(more if wide else []),
        (span("-" if gpu.numa_node is None else str(gpu.numa_node)),),
        (_health(state, glyphs),),
        _use(state, glyphs),
        _holders(state.devices),
    ]


def _health(state: _GpuState, glyphs: Glyphs) -> Span:
    if not state.devices:
        return span(f"{glyphs.dot} unlisted", Tone.QUIET)
    if all(device.is_healthy for device in state.devices):
        return span(f"{glyphs.well} healthy", Tone.GOOD)
    if not state.is_connected:
        return span(f"{glyphs.ill} no plugin", Tone.WARNING)
    return span(f"{glyphs.ill} {state.cause}", Tone.BAD)


def _use(state: _GpuState, glyphs: Glyphs) -> Line:
    pieces = list[Span]()
    broken = span(glyphs.broken, Tone.BAD if state.is_connected else Tone.WARNING)
    for device in state.devices:
        if not device.is_healthy:
            pieces.append(broken)
        elif device.pod:
            pieces.append(Span(glyphs.taken, _pod_colour(device.pod)))
        else:
            pieces.append(span(glyphs.free, Tone.QUIET))
        pieces.append(span(" "))
    return tuple(pieces[:-1])


def _holders(devices: Iterable[DeviceView]) -> Line:
    names = dict.fromkeys(device.pod for device in devices if device.pod)
    pieces = list[Span]()
    for name in names:
        pieces += [Span(name, _pod_colour(name)), span("  ")]
    return tuple(pieces[:-1])


def _pod_colour(name: str) -> str:
    return POD_COLOURS[sum(name.encode()) % len(POD_COLOURS)]


def resource_table(node: NodeView, width: int, glyphs: Glyphs = UNICODE) -> list[Line]:
    """What the node offers, as the kubelet counts it."""
    columns = [
        Column("RESOURCE", 21),
        Column("CAPACITY", 8, Align.RIGHT),
        Column("ALLOCATABLE", 11, Align.RIGHT),
        Column("IN USE", 6, Align.RIGHT),
        Column("FREE", 4, Align.RIGHT),
        Column("PLUGIN", 0),
    ]
    lines = [head(columns, width, glyphs.ellipsis)]
    lines += [row(columns, _counts(r), width, glyphs.ellipsis) for r in node.resources.values()]
    if not node.resources:
        lines.append((span("none registered", Tone.QUIET),))
    return lines


def _counts(resource: ResourceView) -> list[Line]:
    quiet = Tone.PLAIN if resource.capacity else Tone.QUIET
    lacking = resource.allocatable < resource.capacity
    connected = resource.is_connected
    return [
        (span(resource.name, quiet),),
        (span(str(resource.capacity), quiet),),
        (span(str(resource.allocatable), Tone.BAD if lacking else quiet),),
        (span(str(resource.in_use), quiet),),
        (span(str(resource.free), quiet),),
        (span("connected" if connected else "gone", Tone.GOOD if connected else Tone.WARNING),),
    ]


def _log(picture: Picture, width: int, height: int, glyphs: Glyphs) -> Iterator[Line]:  # noqa: ARG001 - as `_logs`
    """One log of all sides."""
    yield (span("WHAT EACH SIDE SEES", Tone.QUIET),)
    yield from _last(picture.log, frozenset(Side), width, height - 1, named=True)


def _logs(picture: Picture, width: int, height: int, glyphs: Glyphs) -> Iterator[Line]:
    """What the plugin sees beside what the kubelet sees and what happens to the node."""
    half = (width - 3) // 2
    left = _last(picture.log, frozenset({Side.PLUGIN}), half, height - 1)
    others = frozenset({Side.KUBELET, Side.NODE})
    right = _last(picture.log, others, width - half - 3, height - 1)
    border = span(f" {glyphs.border} ", Tone.QUIET)
    title = span("THE PLUGIN'S LOG", Tone.QUIET)
    yield (*pad((title,), half), border, span("THE NODE AND ITS KUBELET", Tone.QUIET))
    for first, second in zip_longest(left, right, fillvalue=()):
        yield (*pad(first, half), border, *second)


def _last(
    log: Iterable[LogLine], sides: frozenset[Side], width: int, count: int, *, named: bool = False
) -> list[Line]:
    """As many of the newest lines as there is room for."""
    lines = list[Line]()
    for line in reversed([line for line in log if line.side in sides]):
        more = log_line(line, width, named=named)
        if lines and len(lines) + len(more) > count:
            break  # half a message says nothing
        lines[:0] = more
    return lines[:count] if count > 0 else []


def log_line(line: LogLine, width: int, *, named: bool) -> list[Line]:
    """One line of the log, with the name of its side where several share one; wrapped."""
    start = [span(f"{line.seconds:6.2f} ", Tone.QUIET)]
    if named:
        start.append(Span(f"{line.side:<8}", SIDE_COLOURS[line.side]))
    indent = length(start)
    pieces = textwrap.wrap(line.text, max(20, width - indent), break_on_hyphens=False) or [""]
    first: Line = (*start, span(pieces[0], line.tone))
    return [first, *((span(" " * indent), span(piece, line.tone)) for piece in pieces[1:])]
