"""Names of extended resources (k8s-device-plugin v0.19.3, api/config/v1/resources.go)."""

from __future__ import annotations

import re

from gpu_device_plugin.config.text import quote
from gpu_device_plugin.errors import ConfigError

PREFIX = "nvidia.com/"
LONGEST = 63
"""Characters of a name with its prefix."""

RULE = (
    f"allowed: at most {LONGEST - len(PREFIX)} lower-case letters, digits, '-' and '.' after {PREFIX}, "
    "each part between dots beginning and ending with a letter or digit"
)
"""The hint of a message."""

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
"""The part after the slash, as a regular expression."""


def resource_name(text: str) -> str:
    """The full name: ``gpu`` becomes ``nvidia.com/gpu``.

    Raises:
        ConfigError: no resource can be called that.
    """
    full = text if text.startswith(PREFIX) else PREFIX + text
    if len(full) > LONGEST:
        raise ConfigError(f"the resource name {quote(text)} is too long", RULE)
    if not re.fullmatch(SUBDOMAIN, full.removeprefix(PREFIX)):
        raise ConfigError(f"{quote(text)} is not a resource name", RULE)
    return full


def shared_name(full: str) -> str:
    """The name that ``renameByDefault`` gives to a shared resource.

    It can be longer than a resource name may be; k8s-device-plugin does not look at that either.
    """
    return full + ".shared"
