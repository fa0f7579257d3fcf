"""Who holds a device, in words, as a list, and as a strip of replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpu_device_plugin.status.model import DeviceStatus, Holder
from gpu_device_plugin.status.page.html import Markup, escaped, join, tag
from gpu_device_plugin.status.page.state import GpuView, Offer
from gpu_device_plugin.status.page.words import count, numbers

MOST_CELLS = 128
"""Replicas that are drawn one by one; of more, the share in use is drawn."""
LONGEST_ROW = 50
"""Cells of a row."""
STRIP_WIDTH, WIDEST_CELL = 300, 14
ROOM = 15_400
"""Characters that the lists of holders of a page may have together, so that it stays small."""


HUES = 6
"""Colours of pods; where there are more pods they come again, and the letters tell them apart."""

Pod = tuple[str, str]
"""Namespace and name."""

Pods = dict[Pod, list[int]]
"""Pods that hold whole GPUs, each with the indices of those."""


def holder_name(holder: Holder) -> Markup:
    """The pod, with its namespace."""
    return Markup(f"{escaped(holder.namespace)}/<b>{escaped(holder.pod)}</b>")


def held(device: DeviceStatus) -> int:
    """How many of a device containers hold, replicas counted."""
    return sum(len(holder.replicas) or 1 for holder in device.holders)


def find_pods(views: Iterable[GpuView]) -> Pods:
    """The pods that hold whole GPUs, each with the GPUs that it holds, by the first of them."""
    pods: Pods = {}
    for view in views:
        for pod in pods_of(view):
            pods.setdefault(pod, []).append(view.gpu.index)
    return pods


def pods_of(view: GpuView) -> Iterator[Pod]:
    """The pods that hold all of a GPU."""
    for offer in view.as_a_whole:
        if not offer.device.replicas:
            yield from dict.fromkeys((h.namespace, h.pod) for h in offer.device.holders)


def letter(number: int) -> str:
    """What stands for a pod in the picture: A, B, …, Z, 27, 28."""
    return chr(ord("A") + number) if number < 26 else str(number + 1)


def letter_tag(number: int) -> Markup:
    """A pod as the picture shows it."""
    return Markup(f'<b class="letter h{number % HUES}">{letter(number)}</b>')


def usage(offer: Offer, pods: Pods) -> Markup:
    """How much of a device is in use, and by whom if it is not shared.

    Args:
        offer: the device.
        pods: those that the picture of the topology shows, in the order of their letters.
    """
    device = offer.device
    if offer.resource.in_use is None:
        text = "use not known"
        return tag("p", escaped(f"{device.replicas} replicas, {text}" if device.replicas else text))
    if device.replicas:
        words = f"<b>{held(device)}</b> of {device.replicas} replicas in use"
        return join((strip(device), tag("p", Markup(words))))
    if not device.holders:
        return tag("p", escaped("free"), class_="free")
    return join(_holder(holder, list(pods)) for holder in device.holders)


def _holder(holder: Holder, pods: Sequence[Pod]) -> Markup:
    name = f"{holder_name(holder)} · {escaped(holder.container)}"
    pod = holder.namespace, holder.pod
    if pod not in pods:
        return tag("p", Markup(name), class_="held")
    return tag("p", Markup(f"{letter_tag(pods.index(pod))} {name}"))


def strip(device: DeviceStatus) -> Markup:
    """A picture of a device's replicas: those in use are high, the others low.

    The text beside it says the same.
    """
    taken = sorted({number for holder in device.holders for number in holder.replicas})
    if device.replicas > MOST_CELLS:
        return _bar(held(device) / device.replicas)
    rows = -(-device.replicas // LONGEST_ROW)
    columns = -(-device.replicas // rows)
    cell = min(WIDEST_CELL, STRIP_WIDTH // columns)
    ground = "".join(
        f"M0 {row}h{min(columns, device.replicas - row * columns)}" for row in range(rows)
    )
    drawn = "".join(
        f"M{start % columns} {start // columns}h{end - start}"
        for start, end in _runs(taken, columns, device.replicas)
    )
    return _strip("strip", (ground, drawn), (columns, rows), (columns * cell, rows * min(cell, 12)))


def _bar(share: float) -> Markup:
    drawn = f"M0 0h{min(share, 1) * 100:.1f}" if share else ""
    return _strip("strip bar", ("M0 0h100", drawn), (100, 1), (STRIP_WIDTH, 12))


def _strip(
    style: str, paths: tuple[str, str], box: tuple[int, int], pixels: tuple[int, int]
) -> Markup:
    ground, drawn = paths
    return tag(
        "svg",
        Markup(f'<path d="{ground}"/>'),
        Markup(f'<path class="u" d="{drawn}"/>' if drawn else ""),
        class_=style,
        aria_hidden="true",
        # Lines are drawn along the middles of the rows.
        viewBox=f"0 -.5 {box[0]} {box[1]}",
        width=pixels[0],
        height=pixels[1],
        preserveAspectRatio="none",
    )


def _runs(taken: Iterable[int], columns: int, limit: int) -> Iterator[tuple[int, int]]:
    """Runs of successive replicas in one row: first, and the one after the last."""
    start = end = -1
    for number in taken:
        if not 0 <= number < limit:
            continue
        if number == end and number % columns:
            end += 1
            continue
        if end > start:
            yield start, end
        start, end = number, number + 1
    if end > start:
        yield start, end


def room_for_lists(offers: Iterable[Offer]) -> int:
    """How many characters each list of holders may have."""
    lists = sum(bool(offer.device.holders) and offer.device.replicas > 0 for offer in offers)
    return ROOM // max(1, lists)


def holders_list(device: DeviceStatus, room: int, whose: str) -> Markup:
    """Who holds which replicas of a device, as far as there is room.

    The pods of a namespace whose containers have the same name go together: that is short, and
    what differs stands out.

    Args:
        device: with replicas.
        room: how many characters there may be.
        whose: the device in words.
    """
    groups, named = dict[tuple[str, str], list[Markup]](), 0
    for holder in device.holders:
        pod, replicas = escaped(holder.pod), escaped(numbers(holder.replicas))
        line = Markup(f"<li>{pod} <b>{replicas}</b>")
        room -= len(line)
        if room < 0:
            break
        groups.setdefault((holder.namespace, holder.container), []).append(line)
        named += 1
    more = len(device.holders) - named
    note = f"and {count(more, 'container')} more, which the JSON document names"
    return join(
        (
            tag("h4", escaped(f"{count(len(device.holders), 'container')} on {whose}")),
            *(_group(*names, lines) for names, lines in groups.items()),
            tag("p", escaped(note)) if more else Markup(""),
        )
    )


def _group(namespace: str, container: str, lines: Iterable[Markup]) -> Markup:
    title = f"Namespace <b>{escaped(namespace)}</b>, container <b>{escaped(container)}</b>"
    return Markup(
        f"<p>{title}: pods and their replicas</p>"
        f'<ul class="holders" role="list">{"".join(lines)}</ul>'
    )
