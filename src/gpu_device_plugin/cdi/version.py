"""The lowest CDI version whose readers understand a specification.

The rules are those of the CDI library v1.1.0 (`specs-go/version.go`): a specification that says
more than it needs would be refused by older runtimes for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpu_device_plugin.cdi.model import ContainerEdits, Spec

KNOWN_VERSIONS = (
    "0.1.0",
    "0.2.0",
    "0.3.0",
    "0.4.0",
    "0.5.0",
    "0.6.0",
    "0.7.0",
    "0.8.0",
    "1.0.0",
    "1.1.0",
)
"""Every released version that a reader accepts, oldest first."""

BASELINE = "0.3.0"
"""What is written if nothing newer is needed."""


def minimum_version(spec: Spec) -> str:
    """The version to write for this content; the one in `spec` is not looked at."""
    for version, needed in _RULES:
        if needed(spec):
            return version
    return BASELINE


def is_at_least(version: str, other: str) -> bool:
    """Whether one known version is not older than another."""
    return KNOWN_VERSIONS.index(version) >= KNOWN_VERSIONS.index(other)


def _all_edits(spec: Spec) -> Iterator[ContainerEdits]:
    yield spec.edits
    for device in spec.devices:
        yield device.edits


def _needs_110(spec: Spec) -> bool:
    return any(
        e.net_devices or (e.intel_rdt and (e.intel_rdt.schemata or e.intel_rdt.enable_monitoring))
        for e in _all_edits(spec)
    )


def _needs_070(spec: Spec) -> bool:
    return any(e.additional_gids or e.intel_rdt is not None for e in _all_edits(spec))


def _needs_060(spec: Spec) -> bool:
    return (
        bool(spec.annotations)
        or any(d.annotations for d in spec.devices)
        or "." in spec.kind.partition("/")[2]
    )


def _needs_050(spec: Spec) -> bool:
    return any(d.name[:1].isdigit() for d in spec.devices) or any(
        node.host_path for e in _all_edits(spec) for node in e.device_nodes
    )


def _needs_040(spec: Spec) -> bool:
    return any(mount.type for e in _all_edits(spec) for mount in e.mounts)


# 0.8.0 and 1.0.0 changed the library only.
_RULES: tuple[tuple[str, Callable[[Spec], bool]], ...] = (
    ("1.1.0", _needs_110),
    ("0.7.0", _needs_070),
    ("0.6.0", _needs_060),
    ("0.5.0", _needs_050),
    ("0.4.0", _needs_040),
)
