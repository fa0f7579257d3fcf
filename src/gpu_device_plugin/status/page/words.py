"""Times, durations and sizes as the status page writes them. All times are UTC."""

from __future__ import annotations

import time
from collections.abc import Iterable

from gpu_device_plugin.inspection.topology.select import ranges
from gpu_device_plugin.status.page.html import Markup, escaped

DAY = 86400
LATEST = 253402300799.0
"""The last second of the year 9999, the largest that can be written."""


def count(number: int, noun: str) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def numbers(values: Iterable[int]) -> str:
    """``0-3, 6``, with a proper dash."""
    return ranges(list(values)).replace("-", "\N{EN DASH}")


def gpus_text(indices: Iterable[int]) -> str:
    """``GPU 3``, ``GPUs 0-3``."""
    known = sorted(set(indices))
    return f"GPU{'' if len(known) == 1 else 's'} {numbers(known)}"


def span(seconds: float) -> str:
    """A duration in at most two units: ``40 s``, ``12 min``, ``3 h 5 min``, ``2 d 4 h``."""
    whole = int(_sane(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // DAY
    if not minutes:
        return f"{whole} s"
    if not hours:
        return f"{minutes} min"
    if not days:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def ago(moment: float, now: float) -> str:
    """``12 min ago``; clocks that disagree give ``just now``."""
    return "just now" if now - moment < 1 else f"{span(now - moment)} ago"


def clock(moment: float, now: float) -> str:
    """``02:14:05``, with the date in front if it is not that of now."""
    when, today = _utc(moment), _utc(now)
    if when[:3] == today[:3]:
        return time.strftime("%H:%M:%S", when)
    if when[0] == today[0]:
        return time.strftime("%d %b %H:%M:%S", when)
    return time.strftime("%Y-%m-%d %H:%M:%S", when)


def time_tag(moment: float, now: float) -> Markup:
    """A time that programs can read as well."""
    machine = time.strftime("%Y-%m-%dT%H:%M:%SZ", _utc(moment))
    return Markup(f'<time datetime="{machine}">{escaped(clock(moment, now))}</time>')


def _utc(moment: float) -> time.struct_time:
    return time.gmtime(_sane(moment))


def _sane(seconds: float) -> float:
    """The nearest number that a calendar has; 0 for what is no number."""
    return min(seconds, LATEST) if seconds > 0 else 0


def size(amount: int) -> str:
    """``40 GiB``, ``4.8 GiB``; empty for 0, which says that it is not known."""
    if amount <= 0:
        return ""
    gib = amount / 2**30
    if gib < 1:
        return f"{amount / 2**20:.0f} MiB"
    return f"{gib:.0f} GiB" if gib >= 100 or abs(gib - round(gib)) < 0.05 else f"{gib:.1f} GiB"


def pci_text(bus_id: str) -> str:
    """A PCI address without a domain that says nothing."""
    return bus_id.removeprefix("00000000:").removeprefix("0000:")


__all__ = [
    "ago",
    "clock",
    "count",
    "gpus_text",
    "numbers",
    "pci_text",
    "size",
    "span",
    "time_tag",
]
