"""The topology of the page: a picture, what its lines and letters mean, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_device_plugin.inspection.topology.model import ITSELF, UNKNOWN
from gpu_device_plugin.markup import element
from gpu_device_plugin.status.model import LinkStatus, NodeStatus
from gpu_device_plugin.status.page.circle import draw
from gpu_device_plugin.status.page.html import (
    Markup,
    details,
    escaped,
    items,
    join,
    section,
    table,
    tag,
)
from gpu_device_plugin.status.page.links import (
    NUMA_KIND,
    Links,
    Spot,
    is_drawn,
    kind_text,
    make_spots,
    sort_links,
    width_of,
)
from gpu_device_plugin.status.page.state import GpuView, view_gpus
from gpu_device_plugin.status.page.usage import Pods, find_pods, letter_tag
from gpu_device_plugin.status.page.words import gpus_text, numbers


def topology_section(status: NodeStatus) -> Markup:
    """How the GPUs are linked and who holds them; empty where there is nothing to draw."""
    views = view_gpus(status)
    if status.hardware is None or not is_drawn(views):
        return Markup("")
    if not status.hardware.links_known:
        return section("topology", "Topology", tag("p", escaped("The links are being read.")))
    known = {view.gpu.index for view in views}
    all_links = [link for link in status.hardware.links if {link.a, link.b} <= known]
    links = sort_links(views, all_links)
    if links.hub == UNKNOWN or not all_links:
        text = "How the GPUs are linked is not known."
        return section("topology", "Topology", tag("p", escaped(text)))
    pods = find_pods(views)
    spots = make_spots(views, list(pods))
    picture = draw(spots, links, "Links between the GPUs", _description(spots, links, len(views)))
    return section(
        "topology",
        "Topology",
        tag(
            "div",
            picture,
            tag("div", _legend(links, len(views), all_links), _pods(pods), class_="legend"),
            class_="figure",
        ),
        details("links", escaped("Links as a table"), _matrix(views, all_links)),
    )


def _description(spots: Sequence[Spot], links: Links, total: int) -> str:
    """What the picture shows, for those who do not see it."""
    parts = [f"{spot.text}." for spot in spots]
    if links.hub:
        parts.append(_all_alike(links.hub, total))
    parts += [
        f"{link.a} to {link.b}: {kind_text(link.kind, link.nvlinks)}."
        for link in reversed(links.drawn)
    ]
    return " ".join(parts)


def _all_alike(kind: str, total: int) -> str:
    number = f"All {total}" if total > 2 else "Both"
    return f"{number} GPUs are equally near each other: {_named(kind)}."


def _named(kind: str) -> str:
    nvlinks = kind.removeprefix("NV")
    return f"{kind}, {kind_text(kind, int(nvlinks) if nvlinks.isdecimal() else 0)}"


def _legend(links: Links, total: int, all_links: Sequence[LinkStatus]) -> Markup:
    return items(_lines(links, total, all_links), "lines")


def _lines(links: Links, total: int, all_links: Sequence[LinkStatus]) -> Iterator[Markup]:
    if links.hub:
        yield escaped(_all_alike(links.hub, total))
    most = max((link.nvlinks for link in links.drawn), default=0)
    for kind in links.kinds:
        link = next(link for link in links.drawn if link.kind == kind)
        yield join((_sample(link, most), _kind(kind)))
    for kind in links.left_out:
        how = "shown by the arcs" if kind == NUMA_KIND and links.arcs else "not drawn"
        yield Markup(f"{_kind(kind)} <span class=faint>({how})</span>")
    if links.arcs:
        yield escaped("Arcs join the GPUs of a NUMA node.")
    if not any(link.nvlinks for link in all_links):
        yield escaped("No NVLink joins two GPUs directly; those to NVSwitches do not show.")


def _kind(kind: str) -> Markup:
    word, _, meaning = _named(kind).partition(", ")
    return Markup(f"<b>{escaped(word)}</b> {escaped(meaning)}")


def _sample(link: LinkStatus, most: int) -> Markup:
    line = element(
        "path",
        class_="nv" if link.nvlinks else "pcie",
        d="M0 6h28",
        stroke_width=round(width_of(link, most), 1),
    )
    return element("svg", line, class_="sample", aria_hidden="true", width=28, height=12)


def _pods(pods: Pods) -> Markup:
    return items(
        (
            Markup(
                f"{letter_tag(number)} "
                f"{escaped(namespace)}/<b>{escaped(pod)}</b>: {escaped(gpus_text(gpus))}"
            )
            for number, ((namespace, pod), gpus) in enumerate(pods.items())
        ),
        "pods",
    )


def _matrix(views: Sequence[GpuView], links: Sequence[LinkStatus]) -> Markup:
    kinds = {(link.a, link.b): link.kind for link in links}
    indices = [view.gpu.index for view in views]

    def cell(one: int, other: int) -> Markup:
        if one == other:
            return escaped(ITSELF)
        return escaped(kinds.get((min(one, other), max(one, other)), UNKNOWN))

    rows = ([escaped(str(one)), *(cell(one, other) for other in indices)] for one in indices)
    title = f"Links between GPUs {numbers(indices)}"
    # Wide for a telephone: it scrolls by itself, also by keyboard.
    return tag(
        "div",
        table("matrix", title, ("GPU", *map(str, indices)), rows),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=title,
    )
