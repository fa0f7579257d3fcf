"""A JSON Schema of the configuration file, for editors and CI, made from the table of keys.

It is stricter than the programs: it refuses unknown keys, which they only warn about, and
spellings of keys that differ in case, which they accept.
"""

from __future__ import annotations

from typing import Any

from gpu_device_plugin.config import selectors
from gpu_device_plugin.config.durations import format_duration
from gpu_device_plugin.config.keys import SCHEMA
from gpu_device_plugin.config.names import LONGEST, PREFIX, SUBDOMAIN
from gpu_device_plugin.config.numbers import INT64_MAX
from gpu_device_plugin.config.options import Kind, Option, option_for_path
from gpu_device_plugin.config.quantities import NO_LIMIT, QUANTITY
from gpu_device_plugin.config.readers import NUMBER
from gpu_device_plugin.config.schema import Form, Key, Null

DIALECT = "http://json-schema.org/draft-07/schema#"
DURATION = r"^(infinite|[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+))$"

Schema = dict[str, Any]

_LITERALS = {"false": False, "true": True} | {w: w for w in ("v1", "all", "unhealthy", "5m")}
"""Defaults of keys, which are words, as they would stand in a file."""
_MEMORY: Schema = {
    "anyOf": [
        {"type": "string", "pattern": f"^({QUANTITY}|{NO_LIMIT})$"},
        {"type": "integer", "minimum": 0, "description": "Bytes."},
    ]
}
_FIXED: dict[Form, Schema] = {
    Form.BOOL: {"type": "boolean"},
    Form.INTEGERS: {"type": "array", "items": {"type": "integer"}},
    Form.DURATION: {
        "anyOf": [
            {"type": "string", "pattern": DURATION},
            {"type": "number", "description": "Nanoseconds."},
        ]
    },
    Form.MEMORY: _MEMORY,
    Form.MEMORIES: {
        "type": "object",
        "patternProperties": {f"^{selectors.GPU_REFERENCE}$": _MEMORY},
        "additionalProperties": False,
    },
    Form.PERIOD: {"type": "string", "pattern": DURATION.replace("[-+]?", "[+]?")},
    Form.NAME: {
        "type": "string",
        "pattern": f"^({PREFIX.replace('.', '[.]')})?{SUBDOMAIN}$",
        "maxLength": LONGEST,
    },
    Form.SELECTOR: {
        "anyOf": [
            {"const": selectors.ALL},
            {"type": "integer", "minimum": 1},
            {
                "type": "array",
                "items": {
                    "anyOf": [
                        {"type": "integer", "minimum": 0},
                        {"type": "string", "pattern": f"^{selectors.REFERENCE}$"},
                    ]
                },
            },
        ]
    },
}
_ITEMS: dict[Form, Schema] = {
    Form.GPUS: {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {
                "type": "string",
                "anyOf": [
                    {"pattern": f"^{selectors.REFERENCE}$"},
                    {"pattern": selectors.MODEL, "not": {"pattern": f"^{selectors.UUID_PREFIX}"}},
                ],
            },
        ]
    },
    Form.PATTERNS: {"type": "string"},
}


def config_schema() -> Schema:
    """The schema of a whole file; an empty file, which is null, is one too."""
    return {
        "$schema": DIALECT,
        "title": "Configuration of gpu-device-plugin",
        **_or_null(_mapping(SCHEMA, "")),
        "patternProperties": {"^x-": {"description": "Ignored; a place for anchors."}},
    }


def _key(key: Key, path: str) -> Schema:
    option = option_for_path(path)
    schema: Schema = {"description": key_help(key, option)}
    default = _default(key, option)
    if default is not None:
        schema["default"] = default
    allowed = key.allowed or (option.allowed if option else ())
    value = _value(key, path, list(allowed))
    return schema | (value if key.null is Null.FAILS else _or_null(value))


def key_help(key: Key, option: Option | None) -> str:
    """What a key means; the table of options says it for keys that override one."""
    text = key.help or (option.help if option else "")
    return f"{text} Since {key.since}." if key.since else text


def _default(key: Key, option: Option | None) -> Any:
    """The default as it would stand in the file; None if it cannot be written there."""
    if option is None:
        return _LITERALS.get(key.default)
    if option.kind is Kind.DURATION and isinstance(option.default, int):
        return format_duration(option.default)
    return list(option.default) if isinstance(option.default, tuple) else option.default


def _value(key: Key, path: str, allowed: list[str]) -> Schema:
    least: Schema = {"minItems": key.minimum} if key.minimum else {}
    match key.form:
        case Form.OBJECT:
            return _mapping(key, path)
        case Form.OBJECTS:
            return {"type": "array", "items": _mapping(key, path + "[]"), **least}
        case Form.GPUS | Form.PATTERNS:
            return {"type": "array", "items": _ITEMS[key.form], **least}
        case Form.INTEGER:
            most = INT64_MAX if key.maximum is None else key.maximum
            return {"type": "integer", "minimum": key.minimum, "maximum": most}
        case Form.TEXT | Form.CHOICE | Form.TEXTS | Form.CHOICES:
            return _words(key.form, {"type": "string"} | ({"enum": allowed} if allowed else {}))
        case _:
            return _FIXED[key.form]


def _words(form: Form, word: Schema) -> Schema:
    """A word, a list of words, or words by number."""
    if form is Form.CHOICES:
        words: Schema = {f"^{NUMBER}$": word}
        return {"type": "object", "patternProperties": words, "additionalProperties": False}
    if form is Form.TEXTS:
        return {"anyOf": [word, {"type": "array", "items": word}]}
    return word


def _mapping(key: Key, path: str) -> Schema:
    prefix = f"{path}." if path else ""
    schema: Schema = {
        "type": "object",
        "properties": {child.name: _key(child, prefix + child.name) for child in key.children},
        "additionalProperties": False,
    }
    required = [child.name for child in key.children if child.required]
    return schema | ({"required": required} if required else {})


def _or_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    nullable = schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable
