"""The fields of a CDI specification and their types (CDI specification 1.1.0, `specs-go`).

Runtimes refuse a file with a field that they do not know, with one that is given twice, or with
one of another type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_device_plugin.config.diagnostics import Place
from gpu_device_plugin.config.document import Node
from gpu_device_plugin.config.text import closest
from gpu_device_plugin.inspection.findings import Finding, error


class Kind(StrEnum):
    """The type of a value, in the words of a message."""

    TEXT = "a text"
    FLAG = "true or false"
    NUMBER = "a whole number"
    MAPPING = "an object of texts"
    OBJECT = "an object"


@dataclass(frozen=True, slots=True)
class Field:
    """What may stand in a field."""

    kind: Kind
    is_list: bool = False
    allowed: range = range(0)
    """Of a number."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    """Of an object."""


_INT64 = range(-(1 << 63), 1 << 63)
_UINT32 = range(1 << 32)

_TEXT = Field(Kind.TEXT)
_TEXTS = Field(Kind.TEXT, is_list=True)
_MAPPING = Field(Kind.MAPPING)
_ID = Field(Kind.NUMBER, allowed=_UINT32)
_LONG = Field(Kind.NUMBER, allowed=_INT64)


def _objects(**fields: Field) -> Field:
    return Field(Kind.OBJECT, is_list=True, fields=fields)


_EDITS = Field(
    Kind.OBJECT,
    fields={
        "env": _TEXTS,
        "deviceNodes": _objects(
            path=_TEXT,
            hostPath=_TEXT,
            type=_TEXT,
            major=_LONG,
            minor=_LONG,
            fileMode=_ID,
            permissions=_TEXT,
            uid=_ID,
            gid=_ID,
        ),
        "netDevices": _objects(hostInterfaceName=_TEXT, name=_TEXT),
        "hooks": _objects(hookName=_TEXT, path=_TEXT, args=_TEXTS, env=_TEXTS, timeout=_LONG),
        "mounts": _objects(hostPath=_TEXT, containerPath=_TEXT, options=_TEXTS, type=_TEXT),
        "intelRdt": Field(
            Kind.OBJECT,
            fields={
                "closID": _TEXT,
                "l3CacheSchema": _TEXT,
                "memBwSchema": _TEXT,
                "schemata": _TEXTS,
                "enableMonitoring": Field(Kind.FLAG),
            },
        ),
        "additionalGids": Field(Kind.NUMBER, is_list=True, allowed=_UINT32),
    },
)

SPEC = Field(
    Kind.OBJECT,
    fields={
        "cdiVersion": _TEXT,
        "kind": _TEXT,
        "annotations": _MAPPING,
        "devices": _objects(name=_TEXT, annotations=_MAPPING, containerEdits=_EDITS),
        "containerEdits": _EDITS,
    },
)
"""A whole file."""


def shape_findings(node: Node, place: Place, expected: Field = SPEC) -> Iterator[Finding]:
    """Everything in a value that has the wrong type or is not known.

    Args:
        node: the value.
        place: where it stands.
        expected: what it should be.
    """
    if not expected.is_list:
        yield from _value_findings(node, place, expected)
    elif not isinstance(node.value, list):
        yield error(place, "must be a list")
    else:
        for index, item in enumerate(node.value):
            yield from _value_findings(item, place.item(index, item.line), expected)


def _value_findings(node: Node, place: Place, expected: Field) -> Iterator[Finding]:
    if not _has_type(node, expected):
        yield error(place, f"must be {_wanted(expected)}", _hint(node, expected))
    elif expected.kind is Kind.MAPPING:
        yield from _repeated(node, place)
        for key, child in _children(node):
            yield from _value_findings(child, place.below(key, child.line), _TEXT)
    elif expected.kind is Kind.OBJECT:
        yield from _repeated(node, place)
        for name, child in _children(node):
            yield from _field_findings(name, child, place, expected.fields)


def _field_findings(
    name: str, node: Node, place: Place, fields: Mapping[str, Field]
) -> Iterator[Finding]:
    where = place.below(name, node.line)
    known = fields.get(name)
    if known is None:
        near = closest(name, fields)
        hint = f"did you mean {near}?" if near else f"allowed: {', '.join(fields)}"
        yield error(where, "is not a known field", hint)
    elif node.value is not None:
        yield from shape_findings(node, where, known)


def _has_type(node: Node, expected: Field) -> bool:
    value = node.value
    match expected.kind:
        case Kind.TEXT:
            return isinstance(value, str)
        case Kind.FLAG:
            return isinstance(value, bool)
        case Kind.NUMBER:
            return type(value) is int and value in expected.allowed
        case Kind.MAPPING | Kind.OBJECT:
            return isinstance(value, dict)


def _wanted(expected: Field) -> str:
    if expected.kind is not Kind.NUMBER:
        return expected.kind
    return f"{expected.kind} from {expected.allowed[0]} to {expected.allowed[-1]}"


def _hint(node: Node, expected: Field) -> str:
    is_scalar = not isinstance(node.value, list | dict) and node.value is not None
    return "put it in quotes" if expected.kind is Kind.TEXT and is_scalar else ""


def _repeated(node: Node, place: Place) -> Iterator[Finding]:
    for name, line in node.repeated:
        yield error(place.below(name, line), "is given twice", "keep one of them")


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict):
        yield from node.value.items()
