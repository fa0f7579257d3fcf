"""The GPUs and MIG devices of the page: health with its cause, place, and who holds what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.status.model import GpuStatus, Hardware, Illness, MigStatus, NodeStatus
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
from gpu_device_plugin.status.page.links import is_drawn
from gpu_device_plugin.status.page.state import (
    ENDS,
    GpuView,
    Level,
    Offer,
    cause_first,
    cause_of,
    condition_of,
    view_gpus,
)
from gpu_device_plugin.status.page.usage import Pods, find_pods, holders_list, room_for_lists, usage
from gpu_device_plugin.status.page.words import ago, count, pci_text, size, time_tag

TIMES = "\N{MULTIPLICATION SIGN}"
MIG_HEADS = "MIG device", "Profile", "Health", "In use", "Memory", "Instances"


@dataclass(frozen=True, slots=True)
class _Page:
    """What all GPUs of a page have in common."""

    now: float
    room: int
    """Characters for each list of holders."""
    pods: Pods
    """Those that the picture of the topology shows."""
    tells_models: bool
    """Whether the GPUs differ."""


def gpus_section(status: NodeStatus) -> Markup:
    """All GPUs of the node, each with what is known of it; empty where no program reads them."""
    if status.hardware is None:
        return Markup("")
    views = view_gpus(status)
    room = room_for_lists(offer for view in views for offer in view.offers)
    models = Counter(_model(view.gpu) for view in views)
    note = join(tag("p", escaped(f"{number} {TIMES} {model}")) for model, number in models.items())
    pods = find_pods(views) if is_drawn(views) else {}
    page = _Page(status.time, room, pods, tells_models=len(models) > 1)
    rows = "".join(_gpu(view, page) for view in views)
    listed = Markup(f'<ul class="gpus" role="list">{rows}</ul>' if rows else "")
    lines = items((escaped(text) for text in status.hardware.unreadable), "unread")
    return section("gpus", "GPUs", listed or _none(status.hardware), lines, note=note)


def _model(gpu: GpuStatus) -> str:
    """What a GPU has in common with others of its kind."""
    capability = gpu.compute_capability and f"compute capability {gpu.compute_capability}"
    return ", ".join(filter(None, (gpu.name, size(gpu.memory_bytes), capability)))


def _none(hardware: Hardware) -> Markup:
    return tag("p", escaped(hardware.problem or "The driver knows of no GPU on this node."))


def _gpu(view: GpuView, page: _Page) -> Markup:
    gpu, whole = view.gpu, view.as_a_whole
    name = f"GPU {gpu.index}"
    # MIG devices tell themselves what they have.
    shown = [offer.device.illness for offer in whole if offer.device.illness is not None]
    if not shown and view.is_hit_as_a_whole and view.illness is not None:
        shown = [view.illness]
    return tag(
        "li",
        tag("h3", escaped(name)),
        badge(view.level, view.condition),
        tag("div", join(usage(offer, page.pods) for offer in whole) or _uncut(view), class_="use"),
        tag("p", escaped(" · ".join(_place(view, tells_model=page.tells_models))), class_="place"),
        join(_illness(each, page.now) for each in shown),
        Markup("") if shown or not gpu.lost else tag("p", escaped(gpu.lost), class_="cause"),
        table(
            "mig",
            f"MIG devices of {name}",
            MIG_HEADS,
            (_mig(view, mig, page) for mig in gpu.mig_devices),
        ),
        details(
            f"gpu-{gpu.index}-more",
            Markup(f"Details<span class=vh> of {name}</span>"),
            tag("dl", join(_facts(view))),
            join(_holders(view, page.room)),
        ),
        id=f"gpu-{gpu.index}",
        class_=view.level.style,
    )


def badge(level: Level, text: str) -> Markup:
    """A state in words, with its symbol."""
    sign = f'<span aria-hidden="true">{level.symbol}</span> '
    return tag("p", Markup(f"{sign}{escaped(text)}"), class_=f"badge {level.style}")


def _uncut(view: GpuView) -> Markup:
    if view.gpu.mig_devices:
        return tag("p", escaped(f"cut into {count(len(view.gpu.mig_devices), 'MIG device')}"))
    if view.gpu.mig_enabled:
        return tag("p", escaped("MIG is on, without MIG devices"))
    return Markup("")


def _place(view: GpuView, *, tells_model: bool) -> Iterator[str]:
    gpu = view.gpu
    if tells_model:
        yield _model(gpu)
    if gpu.pci_bus_id:
        yield f"PCI {pci_text(gpu.pci_bus_id)}"
    if gpu.numa_node is not None:
        yield f"NUMA {gpu.numa_node}"


def _illness(illness: Illness, now: float) -> Markup:
    """Why a device is unhealthy, since when, and what ends it."""
    times = f"{time_tag(illness.first, now)} ({ago(illness.first, now)})"
    if illness.count > 1:
        times = (
            f"first {times}, last {time_tag(illness.last, now)} "
            f"({ago(illness.last, now)}), {count(illness.count, 'time')}"
        )
    else:
        times = f"since {times}"
    cause = f"<b>{escaped(cause_first(illness))}</b>, {times}. "
    return tag("p", Markup(cause + escaped(ENDS.get(illness.severity, ""))), class_="cause")


def _mig(view: GpuView, mig: MigStatus, page: _Page) -> tuple[Markup, ...]:
    offers = view.of_mig(mig.uuid)
    return (
        escaped(f"{view.gpu.index}:{mig.slot}"),
        escaped(mig.profile),
        _mig_badge(view, offers),
        join(usage(offer, page.pods) for offer in offers),
        escaped(size(mig.memory_bytes)),
        escaped(f"GI {mig.gpu_instance}, CI {mig.compute_instance}"),
    )


def _mig_badge(view: GpuView, offers: tuple[Offer, ...]) -> Markup:
    if not offers:
        return badge(Level.NOTE, "not offered")
    ill = next((offer.device for offer in offers if not offer.device.healthy), None)
    if ill is None:
        return badge(Level.GOOD, "healthy")
    if ill.illness is None:
        return badge(Level.BAD, "unhealthy")
    words = condition_of(ill.illness)
    if view.is_hit_as_a_whole:
        return badge(Level.BAD, words)
    return badge(Level.BAD, f"{words}: {cause_of(ill.illness)}")


def _facts(view: GpuView) -> Iterator[Markup]:
    gpu = view.gpu
    if gpu.uuid:
        yield fact("UUID", gpu.uuid)
    names = dict.fromkeys(offer.resource.name for offer in view.offers)
    if names:
        yield fact("Offered as", ", ".join(names))
    for mig in gpu.mig_devices:
        yield fact(f"MIG device {gpu.index}:{mig.slot}", mig.uuid)


def fact(term: str, text: str) -> Markup:
    """A term and what there is to say about it, together."""
    return Markup(f"<div><dt>{escaped(term)}<dd>{escaped(text)}</div>")


def _holders(view: GpuView, room: int) -> Iterator[Markup]:
    """Lists of those who hold replicas; who holds a whole device stands beside it already."""
    for offer in view.offers:
        device = offer.device
        if device.replicas and device.holders:
            kind = "MIG device" if device.mig else "GPU"
            yield holders_list(device, room, f"{kind} {device.index}")
