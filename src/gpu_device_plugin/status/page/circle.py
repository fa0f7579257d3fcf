"""Draws the GPUs of a node in a circle: lines for links, arcs for NUMA nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_device_plugin.markup import Markup, element, escaped
from gpu_device_plugin.status.model import LinkStatus
from gpu_device_plugin.status.page.html import join
from gpu_device_plugin.status.page.links import Links, Spot, width_of

SMALLEST_RADIUS, GPU_RADIUS = 112.0, 24.0
SPACING = 60
"""From the middle of a GPU to that of the next, at least."""
ARC_DISTANCE, NAME_DISTANCE, EDGE_DISTANCE = 31, 43, 96
"""From the middles of the GPUs to arcs, names, and the edge of the picture."""
HUB_RADIUS = 30.0
WIDEST_END = 22.0
"""Degrees by which an arc goes beyond its first and last GPU, at most."""


@dataclass(frozen=True, slots=True)
class Circle:
    """Where the GPUs are: the first one on the upper left, the others against the clock."""

    spots: tuple[Spot, ...]

    @property
    def radius(self) -> float:
        """On which the middles of the GPUs are."""
        return max(SMALLEST_RADIUS, SPACING * len(self.spots) / math.tau)

    @property
    def arc_radius(self) -> float:
        """On which the arcs are."""
        return self.radius + ARC_DISTANCE

    def angle(self, number: float) -> float:
        """The angle of a GPU by its place, in degrees, clockwise from the right."""
        return 270 - (number + 0.5) * 360 / len(self.spots)

    def point(self, number: float, radius: float) -> tuple[float, float]:
        """Where that is, from the middle of the circle."""
        angle = math.radians(self.angle(number))
        return radius * math.cos(angle), radius * math.sin(angle)

    def place(self, index: int) -> int:
        """The place of the GPU with this index."""
        return next(n for n, spot in enumerate(self.spots) if spot.index == index)


def draw(spots: tuple[Spot, ...], links: Links, title: str, description: str) -> Markup:
    """The picture as an element of a page."""
    circle = Circle(spots)
    names = list(_names(circle)) if links.arcs else []
    top, bottom = _heights(circle, links)
    half = round(circle.radius + EDGE_DISTANCE)
    return element(
        "svg",
        element("title", escaped(title), id="topology-name"),
        element("desc", escaped(description), id="topology-desc"),
        join(_spokes(circle) if links.hub else _lines(circle, links.drawn)),
        join(_hub(links.hub)) if links.hub else Markup(""),
        join(_arcs(circle)) if links.arcs else Markup(""),
        join(_text(x, y, text, "numa") for (x, y), text in names),
        join(_gpu(circle, number) for number in range(len(spots))),
        class_="circle",
        role="img",
        aria_labelledby="topology-name",
        aria_describedby="topology-desc",
        viewBox=f"{-half} {top:.0f} {2 * half} {bottom - top:.0f}",
        width=2 * half,
        height=round(bottom - top),
    )


def _heights(circle: Circle, links: Links) -> tuple[float, float]:
    """From where to where the picture goes: two GPUs need less room than eight."""
    heights = [circle.point(n, circle.radius)[1] for n in range(len(circle.spots))]
    edges = [min(heights) - GPU_RADIUS - 8, max(heights) + GPU_RADIUS + 8]
    if links.hub:
        edges += [-HUB_RADIUS - 4, HUB_RADIUS + 4]
    if links.arcs:
        for first, last in _spans(circle):
            steps = (first + (last - first) * n / 16 for n in range(17))
            ways = [circle.point(step, circle.arc_radius)[1] for step in steps]
            edges += [min(ways) - 4, max(ways) + 4]
        for (_, y), _ in _names(circle):
            edges += [y - 14, y + 8]
    return min(edges), max(edges)


def _lines(circle: Circle, drawn: Sequence[LinkStatus]) -> Iterator[Markup]:
    """The nearest last, on top of the others."""
    most = max((link.nvlinks for link in drawn), default=0)
    for link in drawn:
        one, other = circle.place(link.a), circle.place(link.b)
        (x1, y1), (x2, y2) = circle.point(one, circle.radius), circle.point(other, circle.radius)
        yield element(
            "path",
            class_="nv" if link.nvlinks else "pcie",
            d=f"M{x1:.0f} {y1:.0f}L{x2:.0f} {y2:.0f}",
            stroke_width=round(width_of(link, most), 1),
        )


def _spokes(circle: Circle) -> Iterator[Markup]:
    ends = (circle.point(number, circle.radius) for number in range(len(circle.spots)))
    lines = "".join(f"M0 0L{x:.0f} {y:.0f}" for x, y in ends)
    yield element("path", class_="pcie", d=lines, stroke_width=2)


def _hub(word: str) -> Iterator[Markup]:
    yield element("circle", class_="hub", r=HUB_RADIUS)
    yield _text(0, 5, word, "index")


def _runs(circle: Circle) -> Iterator[tuple[int, int, int | None]]:
    """GPUs of one NUMA node that stand together: first and last place, and the node."""
    first = 0
    for number, spot in enumerate(circle.spots):
        node = spot.numa_node
        if number + 1 == len(circle.spots) or circle.spots[number + 1].numa_node != node:
            yield first, number, node
            first = number + 1


def _spans(circle: Circle) -> Iterator[tuple[float, float]]:
    """Where the arcs begin and end: a bit beyond their first and last GPU."""
    end = min(0.38, WIDEST_END * len(circle.spots) / 360)
    for first, last, _ in _runs(circle):
        yield first - end, last + end


def _arcs(circle: Circle) -> Iterator[Markup]:
    radius = circle.arc_radius
    for first, last in _spans(circle):
        (x1, y1), (x2, y2) = circle.point(first, radius), circle.point(last, radius)
        large = int((last - first) * 360 / len(circle.spots) > 180)
        way = f"M{x1:.0f} {y1:.0f}A{radius:.0f} {radius:.0f} 0 {large} 0 {x2:.0f} {y2:.0f}"
        yield element("path", class_="arc", d=way)


def _names(circle: Circle) -> Iterator[tuple[tuple[float, float], str]]:
    """The names of the NUMA nodes, outside the middles of their arcs."""
    radius = circle.radius + NAME_DISTANCE
    for first, last, node in _runs(circle):
        x, y = circle.point((first + last) / 2, radius)
        # Text has its baseline below its middle, and is wider than high.
        yield (x + 26 * x / radius, y + 5), f"NUMA {node}"


def _gpu(circle: Circle, number: int) -> Markup:
    spot = circle.spots[number]
    x, y = circle.point(number, circle.radius)
    words = [_text(0, 0 if spot.mark else 6, str(spot.index), "index")]
    if spot.mark:
        words.append(_text(0, 14, spot.mark, "mark"))
    if "bad" in spot.style.split():
        words += [
            element("circle", class_="sign", cx=16, cy=-16, r=8),
            _text(16, -12, "✕", "cross"),
        ]
    return element(
        "g",
        element("title", escaped(spot.text)),
        element("circle", r=GPU_RADIUS),
        *words,
        class_=f"gpu {spot.style}".strip(),
        transform=f"translate({x:.0f} {y:.0f})",
    )


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return element("text", escaped(text), class_=style, x=round(x), y=round(y))
