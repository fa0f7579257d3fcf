"""Which links of a node are worth a line, and who holds which GPU: what the picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_device_plugin.inspection.topology.model import NEARNESS, UNKNOWN
from gpu_device_plugin.status.model import LinkStatus
from gpu_device_plugin.status.page.state import GpuView, Level
from gpu_device_plugin.status.page.usage import HUES, Pod, held, letter, pods_of
from gpu_device_plugin.status.page.words import count

MEANINGS = {nearness.word: nearness.meaning for nearness in NEARNESS.values()}
RANKS = {word: rank for rank, word in enumerate((*MEANINGS, UNKNOWN))}
NUMA_KIND = "NODE"
LONGEST_MARK = 6
"""Characters below the number of a GPU."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A GPU in the picture."""

    index: int
    mark: str
    """What stands below its number: the letter of a pod, how much is shared, ``MIG``."""
    style: str
    """Its classes in the style sheet."""
    numa_node: int | None
    text: str
    """The same in words."""


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a node, sorted by what becomes of them in the picture."""

    drawn: tuple[LinkStatus, ...]
    hub: str
    """The word for the link of every two GPUs, if all have the same."""
    arcs: bool
    """Whether arcs around the GPUs show their NUMA nodes."""
    left_out: tuple[str, ...]
    """Kinds of links that are not drawn."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of links that are drawn, the nearest first."""
        nearest = sorted(self.drawn, key=nearness, reverse=True)
        return tuple(dict.fromkeys(link.kind for link in nearest))


def nearness(link: LinkStatus) -> tuple[int, int]:
    """The larger, the nearer."""
    return link.nvlinks, -RANKS.get(link.kind, len(RANKS))


def is_drawn(views: Sequence[GpuView]) -> bool:
    """Whether there is something to draw.

    Not with less than two GPUs, and not where all of them are cut into MIG devices, which are
    given to containers without regard to links.
    """
    return len(views) > 1 and not all(view.gpu.mig_devices for view in views)


def sort_links(views: Sequence[GpuView], links: Sequence[LinkStatus]) -> Links:
    """Leaves out the farthest kind, and what the NUMA nodes show; of one kind only none is drawn."""
    nodes = {view.gpu.numa_node for view in views}
    arcs = len(nodes) > 1 and None not in nodes
    kinds = {link.kind for link in links}
    if len(kinds) < 2:
        return Links((), next(iter(kinds), ""), arcs, ())
    hidden = {min(links, key=nearness).kind} | ({NUMA_KIND} if arcs else set())
    drawn = sorted((link for link in links if link.kind not in hidden), key=nearness)
    return Links(tuple(drawn), "", arcs, tuple(sorted(kinds & hidden, key=_rank)))


def _rank(kind: str) -> int:
    return RANKS.get(kind, len(RANKS))


def width_of(link: LinkStatus, most: int) -> float:
    """How thick its line is: by the number of NVLinks, or by how near the GPUs are on PCIe.

    Args:
        link: what is drawn.
        most: the most NVLinks between two GPUs of this node.
    """
    if link.nvlinks:
        return 1.5 + 5 * link.nvlinks / max(most, 1)
    return max(1.2, 5.2 - 1.2 * _rank(link.kind))


def kind_text(link_kind: str, nvlinks: int) -> str:
    """What a kind of link is, in words."""
    if nvlinks:
        return count(nvlinks, "NVLink")
    return MEANINGS.get(link_kind, "not known")


def make_spots(views: Sequence[GpuView], pods: Sequence[Pod]) -> tuple[Spot, ...]:
    """The GPUs, those of a NUMA node together."""
    firsts = dict[int | None, int]()
    for view in views:
        firsts.setdefault(view.gpu.numa_node, view.gpu.index)
    ordered = sorted(views, key=lambda view: (firsts[view.gpu.numa_node], view.gpu.index))
    return tuple(_spot(view, pods) for view in ordered)


def _spot(view: GpuView, pods: Sequence[Pod]) -> Spot:
    number = next((pods.index(pod) for pod in pods_of(view)), None)
    mark, style, text = _use(view, number)
    if number is not None:
        text = f"held by {'/'.join(pods[number])}"
    if view.level is Level.BAD:
        style, text = f"{style} bad", f"{view.condition}, {text}"
    name = f"GPU {view.gpu.index}: {text}"
    return Spot(view.gpu.index, mark, style.strip(), view.gpu.numa_node, name)


def _use(view: GpuView, pod: int | None) -> tuple[str, str, str]:
    """The mark of a GPU, its class, and the same in words."""
    if pod is not None:
        return letter(pod), f"h{pod % HUES}", ""
    if view.gpu.mig_devices:
        return "MIG", "", count(len(view.gpu.mig_devices), "MIG device")
    shared = [offer.device for offer in view.as_a_whole if offer.device.replicas]
    known = any(offer.resource.in_use is not None for offer in view.offers)
    if shared and known:
        taken, there = sum(map(held, shared)), sum(device.replicas for device in shared)
        mark = f"{taken}/{there}"
        if len(mark) > LONGEST_MARK:
            mark = f"{100 * taken // there} %"
        return mark, "part" if taken else "", f"{taken} of {there} replicas in use"
    if not view.offers:
        return "off", "away", "not offered"
    return "", "", "free" if known else "use not known"
