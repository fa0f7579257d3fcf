"""Parts of objects of the Kubernetes API, whatever shape they really have.

What answers need not be a Kubernetes API: proxies, gateways and half-written objects answer with
JSON as well. A part that is not of the shape that it should have counts as one that is not there.
"""

from __future__ import annotations

from typing import Any


def mapping(item: object, *keys: str) -> dict[str, Any]:
    """The mapping at a path of keys; empty if there is none."""
    found = item
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def objects(item: object, *keys: str) -> list[dict[str, Any]]:
    """The objects in the list at a path of keys; empty if there is none."""
    *above, last = keys
    found = mapping(item, *above).get(last)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(item: object, *keys: str) -> str:
    """The text at a path of keys; empty if there is none."""
    *above, last = keys
    found = mapping(item, *above).get(last)
    return found if isinstance(found, str) else ""
