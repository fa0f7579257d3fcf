"""The status page: all that is known of a node, as one HTML document that needs nothing else.

It is complete as it is served and can be read without JavaScript. What there is to look at comes in
the order of its importance to somebody who has been woken up.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from urllib.parse import quote

from gpu_device_plugin.markup import element
from gpu_device_plugin.status.model import NodeStatus
from gpu_device_plugin.status.page.gpus import badge, fact, gpus_section
from gpu_device_plugin.status.page.html import (
    Markup,
    escaped,
    items,
    join,
    start_tag,
    tag,
)
from gpu_device_plugin.status.page.script import SCRIPT
from gpu_device_plugin.status.page.state import Level
from gpu_device_plugin.status.page.style import style
from gpu_device_plugin.status.page.tables import (
    configuration_section,
    events_section,
    labels_section,
    mps_section,
    point,
    resources_section,
)
from gpu_device_plugin.status.page.topology import topology_section
from gpu_device_plugin.status.page.verdict import Point, Verdict, judge
from gpu_device_plugin.status.page.words import ago, clock, span, time_tag

STYLE = style()

ICONS = {
    Level.GOOD: ("#1a7f37", "M4 8.5 7 11.5 12 5"),
    Level.NOTE: ("#4a6a9b", "M8 7v5M8 4v1"),
    Level.WARN: ("#b26a00", "M8 3.5v6M8 11.5v1"),
    Level.BAD: ("#c8202b", "M5 5l6 6M11 5l-6 6"),
}
"""Colour and sign of the page's icon."""


def _source_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src '{_source_hash(SCRIPT)}'",
        f"style-src '{_source_hash(STYLE)}'",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""All that the page needs, and nothing else: only the script and the style sheet with just these
contents count, so that markup that got into the page through a name would do nothing."""


def render_page(status: NodeStatus) -> bytes:
    """The page as UTF-8.

    Args:
        status: what is shown; whatever text is in it is shown as text.
    """
    verdict = judge(status)
    return (
        "<!doctype html>\n"
        f'<html lang="en">{tag("head", *_head(status, verdict))}\n'
        f"{tag('body', *_body(status, verdict))}</html>\n"
    ).encode()


def _head(status: NodeStatus, verdict: Verdict) -> Iterator[Markup]:
    yield Markup('<meta charset="utf-8">')
    title = f"{verdict.level.symbol} {verdict.headline}"
    yield tag("title", escaped(f"{title} · {status.node}" if status.node else title))
    yield Markup('<meta name="viewport" content="width=device-width,initial-scale=1">')
    yield Markup('<meta name="color-scheme" content="light dark">')
    yield Markup('<meta name="robots" content="noindex">')
    yield start_tag("link", id="icon", rel="icon", href=_icon(verdict.level))
    yield Markup(f"<style>{STYLE}</style>")


def _icon(level: Level) -> str:
    colour, sign = ICONS[level]
    path = element("path", d=sign, stroke="#fff", stroke_width=2, fill="none")
    picture = element(
        "svg",
        element("circle", cx=8, cy=8, r=8, fill=colour),
        path,
        xmlns="http://www.w3.org/2000/svg",
        viewBox="0 0 16 16",
    )
    return f"data:image/svg+xml,{quote(picture)}"


def _body(status: NodeStatus, verdict: Verdict) -> Iterator[Markup]:
    yield Markup('<a class="skip" href="#status">Skip to the status</a>')
    yield tag(
        "header",
        _node(status),
        Markup('<button id="pause" type="button" hidden>Pause updates</button>'),
        Markup('<p id="alarm" role="alert" hidden></p>'),
        Markup('<noscript><a href="">Reload</a></noscript>'),
    )
    yield tag(
        "main",
        _verdict(status, verdict),
        gpus_section(status),
        resources_section(status),
        topology_section(status),
        events_section(status.events, status.time),
        configuration_section(status.configuration, status.time),
        labels_section(status.labelling, status.time),
        mps_section(status.mps),
        id="status",
        tabindex="-1",
    )
    yield Markup('<footer>The same as <a href="status.json">JSON</a></footer>')
    yield Markup(f"<script>{SCRIPT}</script>")


def _node(status: NodeStatus) -> Markup:
    taken = tag("span", escaped(clock(status.time, status.time)), id="taken")
    return tag(
        "div",
        tag("b", escaped(status.node or status.program)),
        tag("span", Markup(f"State of {taken} UTC"), class_="faint"),
        id="node",
    )


def _verdict(status: NodeStatus, verdict: Verdict) -> Markup:
    sign = tag("span", escaped(verdict.level.symbol), class_="sign", aria_hidden="true")
    # Durations change all the time: read out is what has happened, not how long ago that was.
    headline = tag("div", tag("h1", escaped(verdict.headline)), role="status", aria_live="polite")
    return tag(
        "div",
        sign,
        headline,
        _times(verdict.times, status.time) if verdict.times else Markup(""),
        items((point(each.level, _point(each, status.time)) for each in verdict.points), "points"),
        tag("dl", join(_facts(status)), class_="facts"),
        id="verdict",
        class_=verdict.level.style,
    )


def _times(times: Point, now: float) -> Markup:
    return tag("p", Markup(f"Since {_since(times, now)}"))


def _since(point_: Point, now: float) -> Markup:
    text = f"{time_tag(point_.first, now)}, {ago(point_.first, now)}"
    if point_.count > 1:
        text += f"; {point_.count} times, last {ago(point_.last, now)}"
    return Markup(text)


def _point(point_: Point, now: float) -> Markup:
    if not point_.first:
        return Markup(f"<span>{escaped(point_.text)}</span>")
    return Markup(f"<span>{escaped(point_.text)}, since {_since(point_, now)}</span>")


def _facts(status: NodeStatus) -> Iterator[Markup]:
    level = Level.GOOD if status.ready.ok else Level.WARN
    word = badge(level, "yes" if status.ready.ok else "no")
    yield Markup(f"<div><dt>Ready<dd>{word}</div>")
    yield fact("Program", f"{status.program} {status.version}")
    yield fact("Up for", span(status.time - status.started))
    hardware = status.hardware
    if hardware is None:
        return
    if hardware.driver_version:
        yield fact("Driver", hardware.driver_version)
    if hardware.cuda_version:
        yield fact("CUDA", hardware.cuda_version)
    if hardware.platform and hardware.platform != "nvml":
        yield fact("Platform", hardware.platform)
    if hardware.simulated:
        yield fact("Simulated node", hardware.simulated)
