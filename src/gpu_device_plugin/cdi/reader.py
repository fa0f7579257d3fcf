"""Reads CDI specifications, ours and those of others, as strictly as runtimes do.

The CDI library v1.1.0 refuses a file with a field that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from gpu_device_plugin.cdi.model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from gpu_device_plugin.cdi.validate import validate
from gpu_device_plugin.errors import ConfigError

_INT64 = range(-(1 << 63), 1 << 63)
_UINT32 = range(1 << 32)

_Item = TypeVar("_Item")


def parse_spec(data: bytes, source: str) -> Spec:
    """The specification in the content of a file.

    Args:
        data: JSON, or YAML if `source` does not end in ``.json``.
        source: the file's name, for messages.

    Raises:
        ConfigError: it is not a valid specification; the message names the field.
    """
    try:
        value = json.loads(data) if source.endswith(".json") else _load_yaml(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: {' '.join(str(error).split())}") from error
    try:
        spec = _spec(_Fields(value, ""))
    except _FieldError as error:
        raise ConfigError(f"{source}: {error}") from error
    validate(spec, source)
    return spec


def _load_yaml(data: bytes) -> Any:
    import yaml  # noqa: PLC0415 - 1 MB that the usual JSON does not need

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(data, Loader=loader)  # noqa: S506 - one of the two safe loaders
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _FieldError(Exception):
    """A field is not what it must be; the text names it."""


class _Fields:
    """Takes the fields of one object, each once; what is left over is unknown."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise _FieldError(f"{where or 'the file'} must be an object")
        self._left = dict(value)
        self._where = where

    def text(self, name: str) -> str:
        return self._take(name, str, "") or ""

    def flag(self, name: str) -> bool:
        return bool(self._take(name, bool, False))

    def number(self, name: str, allowed: range) -> int | None:
        value = self._left.pop(name, None)
        return None if value is None else _number(value, allowed, self._path(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return self.items(name, _text)

    def numbers(self, name: str, allowed: range) -> tuple[int, ...]:
        return self.items(name, lambda value, where: _number(value, allowed, where))

    def mapping(self, name: str) -> dict[str, str]:
        value = self._take(name, dict, {}) or {}
        where = self._path(name)
        return {_text(key, where): _text(text, f"{where}.{key}") for key, text in value.items()}

    def items(self, name: str, read: Callable[[Any, str], _Item]) -> tuple[_Item, ...]:
        value = self._take(name, list, []) or []
        where = self._path(name)
        return tuple(read(item, f"{where}[{at}]") for at, item in enumerate(value))

    def objects(self, name: str, read: Callable[[_Fields], _Item]) -> tuple[_Item, ...]:
        return self.items(name, lambda value, where: read(_Fields(value, where)))

    def object(self, name: str, read: Callable[[_Fields], _Item]) -> _Item | None:
        value = self._left.pop(name, None)
        return None if value is None else read(_Fields(value, self._path(name)))

    def done(self) -> None:
        for name in self._left:
            raise _FieldError(f"{self._path(name)} is not a known field")

    def _take(self, name: str, kind: type, default: Any) -> Any:
        value = self._left.pop(name, default)
        if value is not None and not isinstance(value, kind):
            raise _FieldError(f"{self._path(name)} must be {_KINDS[kind]}")
        return value

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


_KINDS = {str: "a text", bool: "true or false", dict: "a mapping", list: "a list"}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _FieldError(f"{where} must be a text")
    return value


def _number(value: Any, allowed: range, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        raise _FieldError(f"{where} must be a whole number from {allowed[0]} to {allowed[-1]}")
    return value


def _spec(fields: _Fields) -> Spec:
    spec = Spec(
        version=fields.text("cdiVersion").removeprefix("v"),
        kind=fields.text("kind"),
        annotations=fields.mapping("annotations"),
        devices=fields.objects("devices", _device),
        edits=fields.object("containerEdits", _edits) or ContainerEdits(),
    )
    fields.done()
    return spec


def _device(fields: _Fields) -> Device:
    device = Device(
        name=fields.text("name"),
        annotations=fields.mapping("annotations"),
        edits=fields.object("containerEdits", _edits) or ContainerEdits(),
    )
    fields.done()
    return device


def _edits(fields: _Fields) -> ContainerEdits:
    edits = ContainerEdits(
        env=fields.texts("env"),
        device_nodes=fields.objects("deviceNodes", _node),
        net_devices=fields.objects("netDevices", _net_device),
        hooks=fields.objects("hooks", _hook),
        mounts=fields.objects("mounts", _mount),
        intel_rdt=fields.object("intelRdt", _intel_rdt),
        additional_gids=fields.numbers("additionalGids", _UINT32),
    )
    fields.done()
    return edits


def _node(fields: _Fields) -> DeviceNode:
    node = DeviceNode(
        path=fields.text("path"),
        host_path=fields.text("hostPath"),
        type=fields.text("type"),
        major=fields.number("major", _INT64) or 0,
        minor=fields.number("minor", _INT64) or 0,
        file_mode=fields.number("fileMode", _UINT32),
        permissions=fields.text("permissions"),
        uid=fields.number("uid", _UINT32),
        gid=fields.number("gid", _UINT32),
    )
    fields.done()
    return node


def _net_device(fields: _Fields) -> NetDevice:
    device = NetDevice(fields.text("hostInterfaceName"), fields.text("name"))
    fields.done()
    return device


def _hook(fields: _Fields) -> Hook:
    hook = Hook(
        hook_name=fields.text("hookName"),
        path=fields.text("path"),
        args=fields.texts("args"),
        env=fields.texts("env"),
        timeout=fields.number("timeout", _INT64),
    )
    fields.done()
    return hook


def _mount(fields: _Fields) -> Mount:
    mount = Mount(
        host_path=fields.text("hostPath"),
        container_path=fields.text("containerPath"),
        options=fields.texts("options"),
        type=fields.text("type"),
    )
    fields.done()
    return mount


def _intel_rdt(fields: _Fields) -> IntelRdt:
    rdt = IntelRdt(
        clos_id=fields.text("closID"),
        l3_cache_schema=fields.text("l3CacheSchema"),
        mem_bw_schema=fields.text("memBwSchema"),
        schemata=fields.texts("schemata"),
        enable_monitoring=fields.flag("enableMonitoring"),
    )
    fields.done()
    return rdt
