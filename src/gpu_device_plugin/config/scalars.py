"""Scalars of YAML 1.1 as go-yaml v2 understands them, which is how Kubernetes reads YAML.

It differs from the usual reading in Python: ``y`` and ``n`` are booleans, ``1:10`` and
``2001-01-01`` are strings, ``1e3`` is a number.
"""

from __future__ import annotations

import re

from gpu_device_plugin.config.numbers import INT64_MAX, INT64_MIN, UINT64_MAX, parse_integer
from gpu_device_plugin.config.text import quote

Scalar = None | bool | int | float | str

_PREFIX = "tag:yaml.org,2002:"
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
_TAGGED = {"bool": bool, "int": int, "float": float, "null": type(None), "timestamp": object}
_SPECIAL = {
    word: value
    for value, words in (
        (True, "y Y yes Yes YES true True TRUE on On ON"),
        (False, "n N no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
        (float("nan"), ".nan .NaN .NAN"),
        (float("inf"), ".inf .Inf .INF +.inf +.Inf +.INF"),
        (float("-inf"), "-.inf -.Inf -.INF"),
    )
    for word in words.split()
} | {"": None}


def resolve(text: str, tag: str | None, *, plain: bool) -> Scalar:
    """The value of a scalar.

    Args:
        text: as it stands in the document, without quotes.
        tag: an explicit tag (``!!int``, ``!``), or None.
        plain: whether it stands without quotes.

    Raises:
        ValueError: the text is not what its tag says.
    """
    if tag is None:
        return _plain(text) if plain else text
    kind = tag.removeprefix(_PREFIX)
    if kind == "binary":
        return _binary(text)
    if kind == tag or kind not in _TAGGED:
        return text
    if kind == "timestamp" and _TIMESTAMP.fullmatch(text):
        return text
    value = _plain(text)
    if kind == "float" and type(value) is int:
        return float(value)
    if type(value) is not _TAGGED[kind]:
        raise ValueError(f"{quote(text)} is not a {kind}")
    return value


def _binary(text: str) -> str:
    import base64  # noqa: PLC0415 - for the very rare tag !!binary

    try:
        return base64.b64decode(text.replace("\n", ""), validate=True).decode("utf-8", "replace")
    except ValueError:
        raise ValueError("what is tagged !!binary is not base64") from None


def _plain(text: str) -> Scalar:
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text[0] in "+-0123456789":
        return _number(text)
    if text[0] == "." and _DECIMAL.fullmatch(text):
        return _float(text)
    return text


def _number(text: str) -> Scalar:
    digits = text.replace("_", "")
    try:
        number = parse_integer(digits)
    except ValueError:
        pass
    else:
        if INT64_MIN <= number <= (UINT64_MAX if digits[0].isdigit() else INT64_MAX):
            return number
    value = _float(digits) if _DECIMAL.fullmatch(digits) else None
    return value if isinstance(value, float) else text


def _float(text: str) -> float | str:
    """The number, or the text itself if it is larger than a double can be."""
    value = float(text)
    return text if value in {float("inf"), float("-inf")} else value
