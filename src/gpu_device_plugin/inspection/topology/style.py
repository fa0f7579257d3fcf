"""The colours of the picture, on light and on dark backgrounds.

Plain rules for plain classes, without CSS variables: viewers other than browsers know no more.
Those that do not know ``prefers-color-scheme`` either show the light picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ROOT = "gpu-topology"
"""Class of the picture; all rules are about what is in it, as it may be part of a page."""

FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif"

SHAPES = {
    "": f"font-family: {FONT}; font-size: 12px",
    ".headline": "font-size: 17px; font-weight: 600",
    ".strong": "font-weight: 600",
    ".answer": "font-weight: 600",
    ".index": "font-size: 20px; font-weight: 600; text-anchor: middle",
    ".detail": "font-size: 11px; text-anchor: middle",
    ".state": "font-size: 11px; text-anchor: middle",
    ".state.chosen": "font-weight: 600",
    ".section": "font-size: 11px; letter-spacing: 0.06em",
    ".label": "font-size: 11px; text-anchor: middle",
    ".head": "text-anchor: end",
    ".number": "font-size: 11.5px; text-anchor: middle",
    ".card": "stroke-width: 1.2",
    ".card.chosen": "stroke-width: 2.4",
    ".card.required": "stroke-width: 4",
    ".card.away": "stroke-dasharray: 4 3",
    ".bus": "fill: none; stroke-linecap: round",
    ".link": "fill: none",
    ".link.away": "stroke-opacity: 0.45",
}


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours for one kind of background; contrasts of texts are at least 4.5 to 1."""

    paper: str
    ink: str
    faint: str
    card: str
    edge: str
    bus: str
    link: str
    heat: str
    chosen: str
    chosen_card: str

    def rules(self) -> Mapping[str, str]:
        """What each class of elements is painted with."""
        return {
            ".paper": f"fill: {self.paper}",
            "text": f"fill: {self.ink}",
            ".faint": f"fill: {self.faint}",
            ".card": f"fill: {self.card}; stroke: {self.edge}",
            ".card.chosen": f"fill: {self.chosen_card}; stroke: {self.chosen}",
            ".card.away": f"fill: {self.paper}",
            ".state.chosen": f"fill: {self.chosen}",
            ".answer": f"fill: {self.chosen}",
            ".bus": f"stroke: {self.bus}",
            ".plate": f"fill: {self.paper}",
            ".link": f"stroke: {self.link}",
            ".link.chosen": f"stroke: {self.chosen}",
            ".heat": f"fill: {self.heat}",
            ".heat.chosen": f"fill: {self.chosen}",
        }


LIGHT = Palette(
    paper="#ffffff",
    ink="#1c2128",
    faint="#59636e",
    card="#f3f5f8",
    edge="#818b98",
    bus="#b3bcc6",
    link="#8f7fd0",
    heat="#5a6fd6",
    chosen="#157033",
    chosen_card="#dcf5e3",
)

DARK = Palette(
    paper="#10151c",
    ink="#e8edf3",
    faint="#9aa5b1",
    card="#1b222c",
    edge="#667180",
    bus="#4a5563",
    link="#8a7ad6",
    heat="#6c80ea",
    chosen="#3fb950",
    chosen_card="#143021",
)


def style() -> str:
    """The text of the style element."""
    dark = _rules(DARK.rules(), "  ")
    return (
        f"\n{_rules(SHAPES)}{_rules(LIGHT.rules())}"
        f"@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
    )


def _rules(rules: Mapping[str, str], indent: str = "") -> str:
    return "".join(
        f"{indent}.{ROOT} {selector} {{ {text} }}\n".replace("  {", " {")
        for selector, text in rules.items()
    )
