"""Names of CDI devices and the annotations that carry them to the runtime.

A qualified name is ``VENDOR/CLASS=DEVICE``. The syntax is that of the CDI library v1.1.0
(`pkg/parser`), the annotation that of k8s-device-plugin v0.19.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from gpu_device_plugin.errors import ConfigError, RequestError

VENDOR = "k8s.device-plugin.nvidia.com"
"""The vendor of every specification that the device plugin writes."""

ANNOTATION_PREFIX = "cdi.k8s.io/"
"""Start of the annotation keys that container runtimes look at."""

_PLUGIN = "nvidia-device-plugin"
_MAX_KEY_NAME = 63

_KIND_PART = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_KEY_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")


class CdiClass(StrEnum):
    """The classes of devices that the plugin can describe, in the order of their names."""

    GPU = "gpu"
    IMEX = "imex-channel"
    GDRCOPY = "gdrcopy"
    GDS = "gds"
    MOFED = "mofed"


def qualified_name(cls: str, device: str, vendor: str = VENDOR) -> str:
    """The name by which a runtime finds a device; neither syntax nor existence is checked."""
    return f"{vendor}/{cls}={device}"


def kind_fault(kind: str) -> str:
    """What is wrong with ``VENDOR/CLASS``; empty if nothing is."""
    vendor, slash, cls = kind.partition("/")
    if not slash:
        return f"{kind!r} is not of the form VENDOR/CLASS"
    for what, text in (("vendor", vendor), ("class", cls)):
        if not _KIND_PART.fullmatch(text):
            return (
                f"{what} {text!r} must begin with a letter, end with a letter or digit and "
                "hold only letters, digits, '_', '-' and '.'"
            )
    return ""


def device_name_fault(name: str) -> str:
    """What is wrong with a device's name; empty if nothing is."""
    if _DEVICE.fullmatch(name):
        return ""
    return (
        f"device name {name!r} must begin and end with a letter or digit and hold only letters, "
        "digits, '_', '-', '.' and ':'"
    )


def parse_qualified_name(text: str) -> tuple[str, str, str]:
    """Vendor, class and device of a qualified name.

    Raises:
        RequestError: it is not one.
    """
    kind, equals, device = text.partition("=")
    if not equals:
        raise RequestError(f"CDI device {text!r} is not of the form VENDOR/CLASS=DEVICE")
    fault = kind_fault(kind) or device_name_fault(device)
    if fault:
        raise RequestError(f"CDI device {text!r}: {fault}")
    vendor, _, cls = kind.partition("/")
    return vendor, cls, device


def check_annotation_prefix(prefix: str) -> None:
    """Refuses a prefix with which no annotation key can be made.

    The original takes any text; only what no runtime could ever match is refused here.

    Raises:
        ConfigError: it holds blanks or characters that cannot be printed.
    """
    if not prefix.isascii() or not prefix.isprintable() or " " in prefix:
        raise ConfigError(
            f"CDI annotation prefix {prefix!r} holds blanks or unprintable characters",
            f"the usual one is {ANNOTATION_PREFIX}",
        )


def annotation(
    request_id: str, names: Sequence[str], prefix: str = ANNOTATION_PREFIX
) -> tuple[str, str]:
    """Key and value of the annotation that asks the runtime for devices.

    Args:
        request_id: tells this container's annotation from others'; the plugin takes a new UUID.
        names: qualified names, in the order in which they are to be listed.
        prefix: start of the key; no slash is put after it.

    Raises:
        RequestError: a name or the id is malformed.
    """
    name = f"{_PLUGIN}_{request_id.replace('/', '_')}"
    if not request_id or len(name) > _MAX_KEY_NAME or not _KEY_NAME.fullmatch(name):
        raise RequestError(f"no CDI annotation key can be made of the id {request_id!r}")
    for qualified in names:
        parse_qualified_name(qualified)
    return f"{prefix}{name}", ",".join(names)
