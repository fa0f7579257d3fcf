"""The status as a JSON document (``docs/status.md``), and back."""

from __future__ import annotations

import json
import math
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from gpu_device_plugin.errors import ConfigError
from gpu_device_plugin.status.model import SCHEMA, Labelling, NodeStatus

T = TypeVar("T")


def to_data(status: NodeStatus) -> dict[str, Any]:
    """The status as mappings, lists and scalars; labels become a mapping."""
    return {name: _plain(value) for name, value in _members(status).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return value
    return (
        {name: _plain(each) for name, each in _members(value).items()}
        if is_dataclass(value)
        else value
    )


def _members(value: Any) -> dict[str, Any]:
    """The fields of a part of a status, not looked into; `asdict` takes six times as long."""
    members = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, Labelling):
        members["labels"] = dict(value.labels)
    return members


def to_json(status: NodeStatus, *, indent: int | None = None) -> str:
    """The document, with a line feed at its end."""
    return json.dumps(status, default=_members, indent=indent, ensure_ascii=False) + "\n"


def from_json(text: str | bytes) -> NodeStatus:
    """The status that a document holds; fields that are not known are passed over.

    Raises:
        ConfigError: it is no such document.
    """
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ConfigError(f"not a status of a node: its schema is {data['schema']!r}")
        if data.get("labelling"):
            data["labelling"]["labels"] = list(data["labelling"]["labels"].items())
        return _read(NodeStatus, data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"not a status of a node: {error}") from None


def _read(cls: type[T], data: dict[str, Any]) -> T:
    hints = typing.get_type_hints(cls)
    given = {f.name for f in fields(cls) if f.name in data}  # type: ignore[arg-type]  # a dataclass
    return cls(**{name: _value(hints[name], data[name]) for name in given})


def _value(hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) is types.UnionType:
        if value is None:
            return None
        hint = next(each for each in typing.get_args(hint) if each is not type(None))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else list(inner)
        return tuple(_value(kind, item) for kind, item in zip(kinds, value, strict=True))
    if is_dataclass(hint) and isinstance(hint, type):
        return _read(hint, value)
    _check(hint, value)
    return value


def _check(kind: type, value: Any) -> None:
    """Makes sure that a scalar is of its kind; numbers need not have a fraction."""
    is_right = type(value) is kind or (kind is float and type(value) is int)
    if not is_right or (kind is float and not math.isfinite(value)):
        raise TypeError(f"{value!r} is no {kind.__name__}")
