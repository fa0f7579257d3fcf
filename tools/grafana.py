"""What a Grafana dashboard is made of: panels that flow from left to right, and rows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
GOOD, BAD = "green", "red"
FINE = ({"color": GOOD, "value": None},)
NONE_IS_FINE = ({"color": GOOD, "value": None}, {"color": BAD, "value": 1})
"""Thresholds of numbers that should be 0."""
ALL_IS_FINE = (
    {"color": BAD, "value": None},
    {"color": "orange", "value": 0.9},
    {"color": GOOD, "value": 1},
)
"""Thresholds of shares that should be the whole."""


@dataclass(frozen=True)
class Query:
    """An expression and how its series are named."""

    expr: str
    legend: str = ""
    is_table: bool = False
    """Whether only its newest values are wanted, each label as a column."""

    def target(self, letter: str) -> dict[str, Any]:
        """As Grafana writes it."""
        form = {"format": "table", "instant": True, "range": False}
        series = {"format": "time_series", "instant": False, "range": True}
        return {
            "refId": letter,
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "legendFormat": self.legend or "__auto",
            **(form if self.is_table else series),
        }


@dataclass(frozen=True)
class Panel:
    """One panel; its place is found when all are put together."""

    kind: str
    title: str
    description: str
    queries: Sequence[Query]
    width: int = 8
    height: int = 7
    unit: str = "short"
    thresholds: Sequence[Mapping[str, Any]] = FINE
    custom: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    mappings: Sequence[Mapping[str, Any]] = ()
    links: Sequence[Mapping[str, Any]] = ()
    transformations: Sequence[Mapping[str, Any]] = ()
    is_colored_by_threshold: bool = False

    def data(self, number: int, x: int, y: int) -> dict[str, Any]:
        """As Grafana writes it."""
        color = "thresholds" if self.is_colored_by_threshold else "palette-classic"
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "datasource": SOURCE,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "fieldConfig": {
                "defaults": {
                    "unit": self.unit,
                    "color": {"mode": color},
                    "custom": dict(self.custom),
                    "mappings": list(self.mappings),
                    "links": list(self.links),
                    "thresholds": {"mode": "absolute", "steps": list(self.thresholds)},
                },
                "overrides": [],
            },
            "options": dict(self.options),
            "targets": [
                query.target(letter)
                for query, letter in zip(self.queries, "ABCDEFGHIJ", strict=False)
            ],
            "transformations": list(self.transformations),
        }


def stat(
    title: str,
    description: str,
    expr: str,
    *,
    unit: str = "short",
    thresholds: Sequence[Mapping[str, Any]] = FINE,
) -> Panel:
    """One number of now."""
    return Panel(
        "stat",
        title,
        description,
        [Query(expr)],
        width=3,
        height=4,
        unit=unit,
        thresholds=thresholds,
        is_colored_by_threshold=True,
        options={
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "auto",
        },
    )


def lines(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    width: int = 8,
    stacked: bool = False,
    bars: bool = False,
) -> Panel:
    """Numbers over time."""
    return Panel(
        "timeseries",
        title,
        description,
        queries,
        width=width,
        unit=unit,
        custom={
            "drawStyle": "bars" if bars else "line",
            "fillOpacity": 60 if bars else 10,
            "lineWidth": 1,
            "showPoints": "never",
            "axisSoftMin": 0,
            "stacking": {"mode": "normal" if stacked or bars else "none", "group": "A"},
        },
        options={
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    )


def timeline(
    title: str, description: str, query: Query, *, fine: int, words: tuple[str, str], width: int = 8
) -> Panel:
    """What was well when, of several things.

    Args:
        title: of the panel.
        description: of the panel.
        query: gives 0 or 1 for each thing.
        fine: which of them is good.
        words: for 0 and for 1.
        width: of the panel.
    """
    steps = [BAD, GOOD] if fine else [GOOD, BAD]
    mapping = {
        "type": "value",
        "options": {
            str(value): {"text": words[value], "color": steps[value], "index": value}
            for value in (0, 1)
        },
    }
    return Panel(
        "state-timeline",
        title,
        description,
        [query],
        width=width,
        mappings=[mapping],
        is_colored_by_threshold=True,
        thresholds=[{"color": steps[0], "value": None}, {"color": steps[1], "value": 1}],
        custom={"fillOpacity": 70, "lineWidth": 0},
        options={
            "mergeValues": True,
            "showValue": "auto",
            "rowHeight": 0.9,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )


def table(
    title: str,
    description: str,
    *queries: Query,
    columns: Mapping[str, str],
    width: int = 12,
    links: Sequence[Mapping[str, Any]] = (),
) -> Panel:
    """Values of now beside their labels.

    Args:
        title: of the panel.
        description: of the panel.
        queries: their labels and values become columns; several are joined by equal labels.
        columns: what is shown, in this order, and how it is called.
        width: of the panel.
        links: where a click leads to.
    """
    order = {name: index for index, name in enumerate(columns)}
    return Panel(
        "table",
        title,
        description,
        queries,
        width=width,
        links=links,
        custom={"align": "auto", "filterable": True},
        options={"showHeader": True, "cellHeight": "sm", "footer": {"show": False}},
        transformations=[
            {"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
            {"id": "organize", "options": {"indexByName": order, "renameByName": dict(columns)}},
        ],
    )


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


def place(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """All panels with their numbers and places."""
    placed = list[dict[str, Any]]()
    number, y = 1, 0
    for row in rows:
        grid = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        placed.append({"id": number, **heading, "gridPos": grid})
        number, x, y, height = number + 1, 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, height = 0, y + height, 0
            placed.append(panel.data(number, x, y))
            number, x, height = number + 1, x + panel.width, max(height, panel.height)
        y += height
    return placed
