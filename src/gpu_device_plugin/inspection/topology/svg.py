"""The topology as a picture: one SVG file that needs nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from gpu_device_plugin.inspection.topology.choice import Choice
from gpu_device_plugin.inspection.topology.drawing import Drawing, Part
from gpu_device_plugin.inspection.topology.groups import find_groups
from gpu_device_plugin.inspection.topology.layout import MARGIN, make_layout
from gpu_device_plugin.inspection.topology.model import Topology
from gpu_device_plugin.inspection.topology.style import ROOT, style
from gpu_device_plugin.inspection.topology.words import (
    PREFERRED,
    choice_lines,
    group_name,
    headline,
    legend,
    named,
)
from gpu_device_plugin.markup import Markup, element, escaped

NARROWEST = 640
LINE = 18
"""Height of a line of text."""
SPACE = 26
"""Between two parts."""
CHARACTER = 6.6
"""Width of a character in a paragraph, on average and on the safe side."""
LARGE_CHARACTER = 10.4
"""As above, in the headline."""
TERM = 76
"""Width of what stands before a paragraph."""


def to_svg(topology: Topology, choice: Choice | None) -> str:
    """The text of an SVG file."""
    layout = make_layout(topology)
    width = round(max(NARROWEST, layout.width))
    parts = [_headline(topology, width)]
    if choice is not None:
        parts.append(_paragraphs(choice_lines(topology, choice), width))
    if topology.problems:
        parts.append(_paragraphs((("problem", text) for text in topology.problems), width))
    if topology.count:
        drawing = Drawing(topology, choice, layout)
        parts.append(drawing.places())
        if topology.count > 1:
            parts += [drawing.scores(), _paragraphs(legend(topology), width)]
    return _document(topology, choice, parts, width)


def _document(topology: Topology, choice: Choice | None, parts: Iterable[Part], width: int) -> str:
    """The parts below each other on a background."""
    drawn, y = list[Markup](), float(MARGIN)
    for part in parts:
        drawn.append(element("g", *part.markup, transform=f"translate(0 {y:.0f})"))
        y += part.height + SPACE
    height = round(y - SPACE + MARGIN)
    picture = element(
        "svg",
        element("title", escaped(f"GPU topology: {headline(topology)}"), id=f"{ROOT}-title"),
        element("desc", escaped(" ".join(_description(topology, choice))), id=f"{ROOT}-desc"),
        element("style", Markup(style())),
        element("rect", class_="paper", width=width, height=height),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        class_=ROOT,
        role="img",
        aria_labelledby=f"{ROOT}-title",
        aria_describedby=f"{ROOT}-desc",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
    )
    return picture + "\n"


def _description(topology: Topology, choice: Choice | None) -> Iterator[str]:
    """What the picture shows, for those who do not see it."""
    root = find_groups(topology)
    for _, group in () if root is None else root.walk():
        yield f"GPU {named(topology, group.gpus)}: {group_name(group)}."
    linked = [pair for pair in topology.pairs() if pair.nvlinks]
    if linked:
        pairs = ("-".join(map(str, topology.indices(pair.ends))) for pair in linked)
        links = ", ".join(
            f"{pair} {link.nvlinks}" for pair, link in zip(pairs, linked, strict=True)
        )
        yield f"NVLinks: {links}."
    for term, text in () if choice is None else choice_lines(topology, choice):
        yield f"{term.capitalize()}: {text}."
    for problem in topology.problems:
        yield f"{problem}."


def _headline(topology: Topology, width: int) -> Part:
    lines = textwrap.wrap(headline(topology), int((width - 2 * MARGIN) / LARGE_CHARACTER))
    return Part(
        tuple(_line(MARGIN, 16 + 24 * n, text, "headline") for n, text in enumerate(lines)),
        24 * len(lines) - 6,
    )


def _paragraphs(terms: Iterable[tuple[str, str]], width: int) -> Part:
    """Paragraphs, each behind a term."""
    markup, number = list[Markup](), 0
    columns = int((width - 2 * MARGIN - TERM) / CHARACTER)
    for term, text in terms:
        markup.append(_line(MARGIN, 12 + LINE * number, term, "faint"))
        kind = "answer" if term == PREFERRED else ""
        for line in textwrap.wrap(text, columns, break_on_hyphens=False):
            markup.append(_line(MARGIN + TERM, 12 + LINE * number, line, kind))
            number += 1
    return Part(tuple(markup), LINE * number - 4)


def _line(x: int, y: int, text: str, kind: str) -> Markup:
    if not kind:
        return element("text", escaped(text), x=x, y=y)
    return element("text", escaped(text), class_=kind, x=x, y=y)
