"""``devices`` of a shared resource (k8s-device-plugin v0.19.3, api/config/v1/replicas.go)."""

from __future__ import annotations

import re

from gpu_device_plugin.config.model import DeviceSelector
from gpu_device_plugin.config.numbers import UINT64_MAX, whole

ALL = "all"
REFERENCE_RULE = "indices of GPUs, indices of MIG devices as 0:1, and UUIDs"
RULE = f"all, a positive number, or a list of {REFERENCE_RULE}"
"""What a message says is allowed."""

_HEX = "[0-9a-fA-F]"
_HYPHENATED = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# Forms that no device has, but that the original accepts.
_UUID = rf"(?:{_HYPHENATED}|{_HEX}{{32}}|\{{{_HYPHENATED}\}}|[uU][rR][nN]:[uU][uU][iI][dD]:{_HYPHENATED})"
REFERENCE = rf"(?:[0-9]+|[0-9]+:[0-9]+|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]+/[0-9]+)"
"""An index, a MIG index or a UUID, as a regular expression."""
GPU_REFERENCE = rf"(?:[0-9]+|GPU-{_UUID})"
"""An index or UUID of a whole GPU, as a regular expression."""
GPU_REFERENCE_RULE = "indices and UUIDs of GPUs"
UUID_PREFIX = "(?:GPU|MIG)-"
MODEL = "[*A-Za-z]"
"""What every pattern of models holds somewhere."""


def reference(value: object) -> str:
    """An item of the list of devices, as a string.

    Raises:
        ValueError: it refers to no device.
    """
    if isinstance(value, str) and re.fullmatch(REFERENCE, value):
        return value
    number = whole(value)
    if number is None or not 0 <= number <= UINT64_MAX:
        raise ValueError("not a reference to a device")
    return str(number)


GPU_RULE = (
    "indices of GPUs, indices of MIG devices as 0:1, UUIDs, and patterns of models such as *A100*"
)
"""What a message says is allowed where GPUs are selected."""


def gpu(value: object) -> str:
    """An item of a list of GPUs: a reference, or a pattern of the names of products.

    Raises:
        ValueError: it selects nothing.
    """
    if isinstance(value, str) and not re.fullmatch(REFERENCE, value):
        if re.match(UUID_PREFIX, value):
            raise ValueError("is not a UUID")
        if not re.search(MODEL, value):
            raise ValueError("is neither a reference nor a pattern")
        return value
    try:
        text = reference(value)
    except ValueError:
        raise ValueError("selects no GPU") from None
    return (
        ":".join(part.lstrip("0") or "0" for part in text.split(":")) if text[0].isdigit() else text
    )


def to_json(selector: DeviceSelector) -> str | int | list[str]:
    """The form that the configuration file has."""
    if selector.all:
        return ALL
    return selector.count or list(selector.references)
