"""Windows driver stores as libdxcore tells them on WSL.

The structures are those of the Windows driver kit's ``d3dkmthk.h`` and ``d3dukmdt.h``, with
wide characters of the size that Linux has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_int32, c_uint32, c_uint64, c_void_p, c_wchar, sizeof
from typing import Any

from gpu_device_plugin.errors import HardwareError

LIBRARY = "libdxcore.so"

_COMPUTE_ONLY = 1
_DRIVER_VERSION = 13
_REGISTRY = 48
_DRIVER_STORE_PATH = 2
_OLDEST_WDDM = 2700
_MAX_PATH = 260
_MAX_ADAPTERS = 1024


class _Adapter(ctypes.Structure):
    _fields_ = (
        ("handle", c_uint32),
        ("luid_low", c_uint32),
        ("luid_high", c_int32),
        ("sources", c_uint32),
        ("move_regions_preferred", c_uint32),
    )


class _EnumAdapters2(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("adapters", POINTER(_Adapter)))


class _EnumAdapters3(ctypes.Structure):
    _fields_ = (("filter", c_uint64), ("count", c_uint32), ("adapters", POINTER(_Adapter)))


class _QueryAdapter(ctypes.Structure):
    _fields_ = (
        ("handle", c_uint32),
        ("type", c_uint32),
        ("data", c_void_p),
        ("size", c_uint32),
    )


class _RegistryQuery(ctypes.Structure):
    _fields_ = (
        ("type", c_uint32),
        ("flags", c_uint32),
        ("name", c_wchar * _MAX_PATH),
        ("value_type", c_uint32),
        ("physical_adapter", c_uint32),
        ("value_size", c_uint32),
        ("status", c_uint32),
        ("value", c_wchar * (_MAX_PATH + 4)),
    )


def driver_stores(load: Callable[[str], Any] = ctypes.CDLL) -> tuple[str, ...]:
    """Directories of the drivers of all adapters, each once.

    Args:
        load: opens a shared library.

    Raises:
        HardwareError: libdxcore is missing or knows of none.
    """
    try:
        library = load(LIBRARY)
        adapters = list(_adapters(library))
    except (OSError, AttributeError) as error:
        raise HardwareError(f"{LIBRARY}: cannot be used: {error}") from error
    paths = (_driver_store(library, adapter) for adapter in adapters)
    stores = tuple(dict.fromkeys(path for path in paths if path))
    if not stores:
        raise HardwareError(f"{LIBRARY}: knows of no driver store")
    return stores


def _adapters(library: Any) -> Iterator[_Adapter]:
    """All adapters, compute-only ones included where the library knows how.

    Raises:
        AttributeError: the library has neither function.
        HardwareError: both fail.
    """
    enumerate3 = getattr(library, "D3DKMTEnumAdapters3", None)
    if enumerate3 is not None:
        request3 = _EnumAdapters3(filter=_COMPUTE_ONLY)
        if _fill(enumerate3, request3):
            yield from request3.adapters[: request3.count]
            return
    request2 = _EnumAdapters2()
    if not _fill(library.D3DKMTEnumAdapters2, request2):
        raise HardwareError(f"{LIBRARY}: cannot list adapters")
    yield from request2.adapters[: request2.count]


def _fill(function: Callable[..., int], request: _EnumAdapters2 | _EnumAdapters3) -> bool:
    """Asks for the number, then for the adapters; False if the library refuses."""
    if function(byref(request)) != 0 or request.count > _MAX_ADAPTERS:
        return False
    room = (_Adapter * max(request.count, 1))()
    request.adapters = ctypes.cast(room, POINTER(_Adapter))
    return function(byref(request)) == 0 and request.count <= len(room)


def _query(
    library: Any, handle: int, kind: int, data: ctypes.Structure | c_uint32, size: int
) -> bool:
    request = _QueryAdapter(handle, kind, ctypes.addressof(data), size)
    return bool(library.D3DKMTQueryAdapterInfo(byref(request)) == 0)


def _driver_store(library: Any, adapter: _Adapter) -> str:
    """The adapter's driver store; empty if it is too old or does not tell."""
    version = c_uint32()
    told = _query(library, adapter.handle, _DRIVER_VERSION, version, sizeof(version))
    if not told or version.value < _OLDEST_WDDM:
        return ""
    header = _RegistryQuery.value.offset + sizeof(c_uint64)
    probe = _RegistryQuery(type=_DRIVER_STORE_PATH)
    told = _query(library, adapter.handle, _REGISTRY, probe, header)
    room = probe.value_size
    if not told or room > _MAX_PATH * sizeof(c_wchar):
        return ""
    answer = _RegistryQuery(type=_DRIVER_STORE_PATH, value_size=room)
    told = _query(library, adapter.handle, _REGISTRY, answer, header + room)
    try:
        return str(answer.value) if told else ""
    except ValueError:  # no text at all
        return ""
