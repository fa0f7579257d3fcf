"""The configurations in the values of a Helm chart: ``config.map``."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.diagnosis.sources import Source, source_of_entry
from gpu_device_plugin.diagnosis.tree import Value


def sources_of_values(values: Source) -> Iterator[Source]:
    """The entries that are texts; those that are YAML themselves become texts when rendered."""
    file = values.file
    root = Value(values.document().root, Place(file))
    last_line = values.data.count(b"\n") + 1
    for key, value in root.get("config", "map").entries():
        if isinstance(value.node.value, str):
            text = value.text.encode("utf-8", "surrogatepass")
            yield source_of_entry(value.node, text, file, f"config.map.{key}", last_line)
