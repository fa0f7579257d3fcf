"""Values of labels: from any text to one that Kubernetes takes."""

from __future__ import annotations

import re

LONGEST = 63
"""Characters of a value, and of the part of a key after the slash."""

_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FOREIGN = re.compile(r"[^A-Za-z0-9\-_. ]")
_EDGES = "-_."


def is_value(text: str) -> bool:
    """Whether Kubernetes takes it as the value of a label; it may be empty."""
    return _VALUE.fullmatch(text) is not None


def is_key_name(text: str) -> bool:
    """Whether Kubernetes takes it as the name of a label, after the prefix."""
    return _KEY_NAME.fullmatch(text) is not None


def sanitise(text: str) -> str:
    """Letters, digits, ``-``, ``_`` and ``.`` of a text; runs of blanks become one ``-``.

    As k8s-device-plugin v0.19.3 does it (internal/lm/resource.go): what else there is, tabs and
    line ends too, is dropped without a trace.
    """
    return "-".join(part for part in _FOREIGN.sub("", text).split(" ") if part)


def mend(value: str) -> str | None:
    """The value, or what Kubernetes takes of it; None if nothing is left of it.

    DEVIATION: v0.19.3 publishes any value, and Node Feature Discovery drops the label.
    """
    if is_value(value):
        return value
    return sanitise(value).strip(_EDGES)[:LONGEST].rstrip(_EDGES) or None


def product(model: str, *suffixes: str) -> str | None:
    """The product label: the model, then what it is cut or shared into.

    DEVIATION: where that is too long for a label the model is cut, not what comes after it.

    Returns:
        None if the model is a name of which no letter or digit can be shown.
    """
    head = sanitise(model)
    if not any(map(str.isalnum, head)) and any(map(str.isalnum, model)):
        head = ""
        if not suffixes:
            return None
    tail = "".join(f"-{part}" for part in map(sanitise, suffixes) if part)
    if len(head) + len(tail) > LONGEST:
        head = head[: LONGEST - len(tail)].rstrip(_EDGES)
    return mend(f"{head}{tail}" if head else tail.removeprefix("-"))
