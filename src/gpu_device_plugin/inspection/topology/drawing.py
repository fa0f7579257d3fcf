"""Draws the parts of the picture of a topology."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_device_plugin.config.text import count
from gpu_device_plugin.inspection.topology.choice import Choice
from gpu_device_plugin.inspection.topology.layout import (
    CARD_HEIGHT,
    MARGIN,
    ROW_HEADS,
    Arc,
    Bus,
    Layout,
    place_text,
)
from gpu_device_plugin.inspection.topology.model import Pair, Topology, level_score
from gpu_device_plugin.inspection.topology.words import group_name, named, state
from gpu_device_plugin.markup import Markup, element, escaped

NAME_HEIGHT = 17
"""Height of the name of a bus, which stands above it."""
ROW = 24
"""Height of a row of scores."""
MOST_LABELS = 40
"""NVLinks that are labelled; where there are more, their width and the scores tell them apart."""
FAINTEST, STRONGEST = 0.06, 0.5
"""How much of the colour the lowest and the highest score have: text is readable on both."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the picture, drawn from 0 downwards."""

    markup: tuple[Markup, ...]
    height: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """What all parts have in common."""

    topology: Topology
    choice: Choice | None
    layout: Layout

    def places(self) -> Part:
        """The tree of PCI Express, the GPUs, and the NVLinks between them."""
        layout = self.layout
        heads = [_section("GPUs", layout.cards_y + CARD_HEIGHT / 2 + 4)]
        if layout.buses:
            heads.append(_section("PCIe", layout.buses[0].y + 4))
        if layout.arcs:
            heads.append(_section("NVLinks", layout.cards_y + CARD_HEIGHT + 22))
        # Links inside the chosen set lie on top of the others.
        arcs = sorted(layout.arcs, key=lambda arc: self._is_chosen(arc.pair))
        labels = [_arc_label(arc, layout) for arc in arcs] if len(arcs) <= MOST_LABELS else []
        return Part(
            (
                *heads,
                *(self._bus(bus) for bus in layout.buses),
                *(self._arc(arc) for arc in arcs),
                *labels,
                *(self._card(position) for position in layout.order),
            ),
            layout.bottom + (10 if layout.arcs else 0),
        )

    def scores(self) -> Part:
        """The score of every two GPUs, each column below its GPU."""
        layout, topology = self.layout, self.topology
        parts = [_section("Scores", 14)]
        for position in layout.order:
            head = str(topology.gpus[position].index)
            parts.append(_text(layout.centres[position], 14, head, "number strong"))
        highest = max((pair.score for pair in topology.pairs()), default=0) or 1
        for row, one in enumerate(layout.order):
            y = 22 + ROW * row
            name = f"GPU {topology.gpus[one].index}"
            parts.append(_text(MARGIN + ROW_HEADS - 10, y + 16, name, "head"))
            parts += [self._cell(one, other, y, highest) for other in layout.order if other != one]
        return Part(tuple(parts), 22 + ROW * topology.count)

    def _is_chosen(self, pair: Pair) -> bool:
        return self.choice is not None and set(pair.ends).issubset(self.choice.chosen)

    def _bus(self, bus: Bus) -> Markup:
        """A bus with the lines down from it, as thick as the GPUs that meet there score."""
        width = 1 + level_score(bus.group.level) / 8
        path = "".join(f"M{_n(x)} {_n(bus.y)}V{_n(end)}" for x, end in bus.drops)
        name = group_name(bus.group)
        half = len(name) * 3.3 + 7
        plate = element(
            "rect",
            class_="plate",
            x=_n(bus.middle - half),
            y=_n(bus.y - NAME_HEIGHT - width / 2),
            width=_n(2 * half),
            height=NAME_HEIGHT,
        )
        return element(
            "g",
            element("title", escaped(f"{name}: GPU {named(self.topology, bus.group.gpus)}")),
            element(
                "path",
                class_="bus",
                stroke_width=_n(width),
                d=f"M{_n(bus.left)} {_n(bus.y)}H{_n(bus.right)}{path}",
            ),
            plate,
            _text(bus.middle, bus.y - 5 - width / 2, name, "label"),
        )

    def _card(self, position: int) -> Markup:
        topology, layout = self.topology, self.layout
        gpu = topology.gpus[position]
        about = state(topology, self.choice, position)
        kinds = ["card"]
        if self.choice is not None and position in self.choice.chosen:
            kinds.append("chosen")
        if about == "required":
            kinds.append("required")
        if about.startswith("not "):
            kinds.append("away")
        x, y = layout.centres[position], layout.cards_y
        node = "" if gpu.numa_node is None else f", NUMA node {gpu.numa_node}"
        return element(
            "g",
            element("title", escaped(f"GPU {gpu.index}: {gpu.name}, {gpu.uuid}{node}")),
            element(
                "rect",
                class_=" ".join(kinds),
                x=_n(x - layout.card / 2),
                y=_n(y),
                width=_n(layout.card),
                height=CARD_HEIGHT,
                rx=8,
            ),
            _text(x, y + 25, str(gpu.index), "index"),
            _text(x, y + 42, place_text(gpu), "detail faint"),
            self._last_line(x, y + 57, about, gpu.numa_node),
        )

    def _last_line(self, x: float, y: float, about: str, numa_node: int | None) -> Markup:
        """What a GPU has to do with the choice, or its NUMA node if that is nothing."""
        if about:
            return _text(x, y, about, "state faint" if about.startswith("not ") else "state chosen")
        return _text(x, y, "" if numa_node is None else f"NUMA {numa_node}", "detail faint")

    def _arc(self, arc: Arc) -> Markup:
        y, control = self.layout.arcs_y, self.layout.arcs_y + arc.depth * 4 / 3
        return element(
            "path",
            element("title", escaped(self._about(arc.pair))),
            class_=f"link {self._importance(arc.pair)}".rstrip(),
            stroke_width=_n(arc.width),
            d=(
                f"M{_n(arc.left)} {_n(y)}C{_n(arc.left)} {_n(control)} "
                f"{_n(arc.right)} {_n(control)} {_n(arc.right)} {_n(y)}"
            ),
        )

    def _importance(self, pair: Pair) -> str:
        """The class of a link: chosen ones stand out, those that do not matter stand back."""
        if self._is_chosen(pair):
            return "chosen"
        is_away = self.choice is not None and not set(pair.ends).issubset(
            self.choice.request.available
        )
        return "away" if is_away or len(self.layout.arcs) > MOST_LABELS else ""

    def _about(self, pair: Pair) -> str:
        one, other = self.topology.indices(pair.ends)
        links = f"{count(pair.nvlinks, 'NVLink')}, " if pair.nvlinks else ""
        return f"GPU {one} and {other}: {links}{pair.ancestor}, score {pair.score}"

    def _cell(self, one: int, other: int, y: float, highest: int) -> Markup:
        layout, pair = self.layout, self.topology.pair(one, other)
        x = layout.centres[other]
        strength = FAINTEST + (STRONGEST - FAINTEST) * pair.score / highest
        return element(
            "g",
            element("title", escaped(self._about(pair))),
            element(
                "rect",
                class_="heat chosen" if self._is_chosen(pair) else "heat",
                fill_opacity=f"{strength:.2f}",
                x=_n(x - layout.card / 2),
                y=_n(y + 1),
                width=_n(layout.card),
                height=ROW - 2,
                rx=3,
            ),
            element(
                "text",
                escaped(f"{pair.word} "),
                element("tspan", escaped(str(pair.score)), class_="strong"),
                class_="number",
                x=_n(x),
                y=_n(y + 16),
            ),
        )


def _arc_label(arc: Arc, layout: Layout) -> Markup:
    """The number of links, where the arc is lowest."""
    x, y = (arc.left + arc.right) / 2, layout.arcs_y + arc.depth
    half = len(arc.pair.word) * 3.4 + 3
    plate = element(
        "rect", class_="plate", x=_n(x - half), y=_n(y - 7), width=_n(2 * half), height=14, rx=7
    )
    return element("g", plate, _text(x, y + 4, arc.pair.word, "label faint"))


def _section(name: str, y: float) -> Markup:
    return _text(MARGIN, y, name, "section faint")


def _text(x: float, y: float, text: str, kind: str) -> Markup:
    return element("text", escaped(text), class_=kind, x=_n(x), y=_n(y))


def _n(number: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{number:.1f}".removesuffix(".0")
