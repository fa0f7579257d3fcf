"""Labels that the configuration shapes: which line of it is the cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.names import PREFIX
from gpu_device_plugin.diagnosis.causes import cause
from gpu_device_plugin.diagnosis.offers import Offered
from gpu_device_plugin.inspection.labels_report import Row
from gpu_device_plugin.labels import keys

_SHARED = "-SHARED"
_OF_SHARING = (keys.REPLICAS, keys.SHARING_STRATEGY)


def with_causes(rows: Sequence[Row], loaded: Loaded, devices: Sequence[Offered]) -> tuple[Row, ...]:
    """The labels, those that the configuration shapes with its line."""
    return tuple(_with_cause(row, list(_causes(row, loaded, devices))) for row in rows)


def _with_cause(row: Row, causes: Sequence[str]) -> Row:
    """The line takes the place of a source that is but the section of the file."""
    is_section = row.source.startswith(("sharing.", "extensions."))
    sources = [] if is_section and causes else [row.source]
    return replace(row, source="; ".join([*sources, *causes]))


def _causes(row: Row, loaded: Loaded, devices: Sequence[Offered]) -> Iterator[str]:
    kind, _, name = row.key.rpartition(".")
    if name == keys.PRODUCT and row.value.endswith(_SHARED):
        yield from _sharing(kind, f"{_SHARED} since it is shared without another name", devices)
    elif name in _OF_SHARING:
        yield from _sharing(kind, "", devices)
    elif row.key == keys.MIG_STRATEGY or (name == keys.PRODUCT and "-MIG-" in row.value):
        yield str(cause(loaded, "flags.migStrategy", ""))


def _sharing(kind: str, what: str, devices: Sequence[Offered]) -> Iterator[str]:
    """What shares the devices that a label tells of."""
    for device in devices:
        if device.base == PREFIX + kind and device.sharing is not None:
            yield f"{what}: {device.sharing}" if what else str(device.sharing)
            return
