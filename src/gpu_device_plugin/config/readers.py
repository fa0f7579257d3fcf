"""Values of the configuration file, by the form that a key wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gpu_device_plugin.config import selectors
from gpu_device_plugin.config.diagnostics import Place, read_all
from gpu_device_plugin.config.document import Node
from gpu_device_plugin.config.durations import EXAMPLES, parse_duration
from gpu_device_plugin.config.model import DeviceSelector
from gpu_device_plugin.config.names import resource_name
from gpu_device_plugin.config.numbers import INT64_MAX, INT64_MIN, whole
from gpu_device_plugin.config.options import option_for_path
from gpu_device_plugin.config.quantities import EXAMPLES as SIZES
from gpu_device_plugin.config.quantities import parse_mebibytes
from gpu_device_plugin.config.schema import Form, Key
from gpu_device_plugin.config.text import quote
from gpu_device_plugin.errors import ConfigError

NUMBER = "(?:0|[1-9][0-9]{0,18})"
"""A number as a key, as a regular expression."""


def read_leaf(key: Key, node: Node, place: Place) -> Any:
    """The value of a key that is no mapping; raises ConfigError if it has the wrong form."""
    return _READERS[key.form](key, node, place)


def mapping(node: Node, place: Place) -> Mapping[str, Node]:
    """The entries of a mapping; raises ConfigError if it is none."""
    if isinstance(node.value, dict):
        return node.value
    raise place.error(f"{shown(node)} where a mapping belongs")


def sequence(node: Node, place: Place, wanted: str) -> list[Node]:
    """The items of a list; raises ConfigError if it is none."""
    if isinstance(node.value, list):
        return node.value
    raise place.error(f"{shown(node)} where {wanted} belongs")


def shown(node: Node) -> str:
    """What a value is, for messages."""
    value = node.value
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {quote(value)}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    return f"the number {value}"


def _allowed(key: Key, place: Place) -> str:
    """``allowed: none, single, mixed``, from the key or its option; empty if anything is."""
    option = option_for_path(place.path)
    values = key.allowed or (option.allowed if option else ())
    return f"allowed: {', '.join(values)}" if values else ""


def _read_bool(_: Key, node: Node, place: Place) -> bool:
    if isinstance(node.value, bool):
        return node.value
    raise place.error(f"{shown(node)} is not a boolean", "allowed: true, false, without quotes")


def _read_text(key: Key, node: Node, place: Place) -> str:
    if isinstance(node.value, str):
        return node.value
    hint = _allowed(key, place) or "allowed: texts; put numbers and booleans in quotes"
    raise place.error(f"{shown(node)} is not a text", hint)


def _read_integer(key: Key, node: Node, place: Place) -> int:
    number = whole(node.value)
    least = INT64_MIN if key.minimum is None else key.minimum
    if number is None:
        raise place.error(f"{shown(node)} is not a whole number", _integers(least, key.maximum))
    if number < least:
        raise place.error(f"{number} is too small", _integers(least, key.maximum))
    if key.maximum is not None and number > key.maximum:
        raise place.error(f"{number} is too large", _integers(least, key.maximum))
    if number > INT64_MAX:
        raise place.error(f"{number} is too large", "allowed: numbers of 64 bits")
    return number


def _integers(least: int, most: int | None) -> str:
    numbers = "whole numbers without quotes"
    if most is not None:
        return f"allowed: {numbers}, {least} to {most}"
    return f"allowed: {numbers}" + (f", {least} or more" if least > INT64_MIN else "")


def _read_texts(key: Key, node: Node, place: Place) -> tuple[str, ...]:
    if isinstance(node.value, str):
        return (node.value,)
    items = sequence(node, place, "a text or a list of texts")
    return tuple(
        read_all(
            partial(_text_or_empty, key, item, place.item(index, item.line))
            for index, item in enumerate(items)
        )
    )


def _text_or_empty(key: Key, node: Node, place: Place) -> str:
    return "" if node.value is None else _read_text(key, node, place)


def _read_integers(key: Key, node: Node, place: Place) -> tuple[int, ...]:
    items = sequence(node, place, "a list of whole numbers")
    return tuple(
        read_all(
            partial(_integer_or_zero, key, item, place.item(index, item.line))
            for index, item in enumerate(items)
        )
    )


def _integer_or_zero(key: Key, node: Node, place: Place) -> int:
    return 0 if node.value is None else _read_integer(key, node, place)


def _read_duration(_: Key, node: Node, place: Place) -> int:
    """Text as on the command line; a number is nanoseconds, and has gone through a double."""
    value = node.value
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise place.error(f"{quote(value)} is {error}", f"allowed: {EXAMPLES}") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        nanoseconds = int(float(value))
        return nanoseconds if INT64_MIN <= nanoseconds <= INT64_MAX else INT64_MIN
    raise place.error(f"{shown(node)} is not a duration", f"allowed: {EXAMPLES}")


def _read_name(key: Key, node: Node, place: Place) -> str:
    text = _read_text(key, node, place)
    try:
        return resource_name(text)
    except ConfigError as error:
        raise place.error(error.message, error.hint) from None


def _read_selector(_: Key, node: Node, place: Place) -> DeviceSelector:
    if node.value == selectors.ALL:
        return DeviceSelector()
    if isinstance(node.value, list):
        references = read_all(
            partial(_reference, item, place.item(index, item.line))
            for index, item in enumerate(node.value)
        )
        return DeviceSelector(all=False, references=tuple(references))
    count = whole(node.value)
    if count is not None and 0 < count <= INT64_MAX:
        return DeviceSelector(all=False, count=count)
    raise place.error(f"{shown(node)} selects no devices", f"allowed: {selectors.RULE}")


def _reference(node: Node, place: Place) -> str:
    try:
        return selectors.reference(node.value)
    except ValueError:
        raise place.error(
            f"{shown(node)} refers to no device", f"allowed: {selectors.REFERENCE_RULE}"
        ) from None


def _read_choice(key: Key, node: Node, place: Place) -> str:
    """The allowed value itself, which is a member of an enumeration where the table has those."""
    for value in key.allowed:
        if node.value == value:
            return value
    raise place.error(f"{shown(node)} is not allowed", _allowed(key, place))


def _read_choices(key: Key, node: Node, place: Place) -> Mapping[int, str]:
    if not isinstance(node.value, dict):
        raise place.error(f"{shown(node)} where a mapping of numbers to words belongs")
    return dict(
        read_all(
            partial(_numbered_choice, key, name, item, place.below(name, item.line))
            for name, item in node.value.items()
        )
    )


def _numbered_choice(key: Key, name: str, node: Node, place: Place) -> tuple[int, str]:
    if not re.fullmatch(NUMBER, name):
        raise place.error(f"{quote(name)} is not a number", "allowed: 0, 1, 2 and so on")
    return int(name), _read_choice(key, node, place)


def _read_gpus(key: Key, node: Node, place: Place) -> tuple[str, ...]:
    items = _items(key, node, place, "a list of GPUs")
    return tuple(read_all(partial(_gpu, item, at) for item, at in items))


def _gpu(node: Node, place: Place) -> str:
    try:
        return selectors.gpu(node.value)
    except ValueError as error:
        raise place.error(f"{shown(node)} {error}", f"allowed: {selectors.GPU_RULE}") from None


def _read_patterns(key: Key, node: Node, place: Place) -> tuple[str, ...]:
    items = _items(key, node, place, "a list of patterns")
    return tuple(read_all(partial(_read_text, key, item, at) for item, at in items))


def _items(key: Key, node: Node, place: Place, wanted: str) -> list[tuple[Node, Place]]:
    items = sequence(node, place, wanted)
    if len(items) < (key.minimum or 0):
        raise place.error("the list is empty", "leave the key out to select everything")
    return [(item, place.item(index, item.line)) for index, item in enumerate(items)]


def _read_period(key: Key, node: Node, place: Place) -> int:
    """A duration of ours: a bare number, which would be nanoseconds, is not what anyone means."""
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        raise place.error(f"{shown(node)} is a duration without a unit", f"allowed: {EXAMPLES}")
    nanoseconds = _read_duration(key, node, place)
    if nanoseconds < 0:
        raise place.error(f"{shown(node)} is a negative duration", f"allowed: {EXAMPLES}")
    return nanoseconds


def _read_memory(_: Key, node: Node, place: Place) -> int:
    number = whole(node.value)
    text = node.value if isinstance(node.value, str) else str(number)
    try:
        return parse_mebibytes(text)
    except ValueError as error:
        raise place.error(f"{shown(node)} {error}", f"allowed: {SIZES}") from None


def _read_memories(key: Key, node: Node, place: Place) -> Mapping[str, int]:
    if not isinstance(node.value, dict):
        raise place.error(f"{shown(node)} where a mapping of GPUs to sizes of memory belongs")
    return dict(
        read_all(
            partial(_memory_of_gpu, key, name, item, place.below(name, item.line))
            for name, item in node.value.items()
        )
    )


def _memory_of_gpu(key: Key, name: str, node: Node, place: Place) -> tuple[str, int]:
    if not re.fullmatch(selectors.GPU_REFERENCE, name):
        raise place.error(
            f"{quote(name)} refers to no GPU", f"allowed: {selectors.GPU_REFERENCE_RULE}"
        )
    return selectors.gpu(name), _read_memory(key, node, place)


_READERS: Mapping[Form, Callable[[Key, Node, Place], Any]] = {
    Form.BOOL: _read_bool,
    Form.TEXT: _read_text,
    Form.INTEGER: _read_integer,
    Form.TEXTS: _read_texts,
    Form.INTEGERS: _read_integers,
    Form.DURATION: _read_duration,
    Form.NAME: _read_name,
    Form.SELECTOR: _read_selector,
    Form.CHOICE: _read_choice,
    Form.CHOICES: _read_choices,
    Form.PERIOD: _read_period,
    Form.GPUS: _read_gpus,
    Form.PATTERNS: _read_patterns,
    Form.MEMORY: _read_memory,
    Form.MEMORIES: _read_memories,
}
