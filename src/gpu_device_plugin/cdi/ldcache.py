"""The dynamic linker's cache, ``/etc/ld.so.cache`` (glibc, `sysdeps/generic/dl-cache.h`)."""

from __future__ import annotations

import struct

MAX_SIZE = 64 << 20
"""Bytes; a cache of a full desktop has a few hundred kilobytes."""

_OLD_MAGIC = b"ld.so-1.7.0\0"
_OLD_HEADER = len(_OLD_MAGIC) + 4
_OLD_ENTRY = 12
_NEW_MAGIC = b"glibc-ld.so.cache1.1"
_NEW_HEADER = 48
_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<iIIIQ")

_ELF = 1
_ARCHITECTURE = 0xFF00
_ARCHITECTURES = frozenset({0x0300, 0x0A00, 0x0500})
"""x86-64, aarch64 and ppc64le, those of nvidia-container-toolkit v1.19.1."""


class LdCacheError(ValueError):
    """The data is not a cache of the known form."""


def parse(data: bytes) -> list[str]:
    """Paths of the libraries of 64-bit architectures, in the cache's order, each once.

    Entries that point outside the data, are empty, relative or not UTF-8 are left out.

    Raises:
        LdCacheError: the cache as a whole is not of the form that little-endian glibc writes.
    """
    start = _new_header(data)
    if data[start : start + len(_NEW_MAGIC)] != _NEW_MAGIC:
        raise LdCacheError("no glibc cache of version 1.1")
    count = _number(data, start + len(_NEW_MAGIC))
    first = start + _NEW_HEADER
    if first + count * _ENTRY.size > len(data):
        raise LdCacheError("cut off")
    paths: dict[str, None] = {}
    for at in range(first, first + count * _ENTRY.size, _ENTRY.size):
        flags, key, value, _, _ = _ENTRY.unpack_from(data, at)
        if not flags & _ELF or flags & _ARCHITECTURE not in _ARCHITECTURES:
            continue
        path = _string(data, start + value)
        if _string(data, start + key) and path.startswith("/"):
            paths[path] = None
    return list(paths)


def _new_header(data: bytes) -> int:
    if not data.startswith(_OLD_MAGIC):
        return 0
    end = _OLD_HEADER + _number(data, len(_OLD_MAGIC)) * _OLD_ENTRY
    return (end + 7) & ~7


def _number(data: bytes, at: int) -> int:
    if at + _COUNT.size > len(data):
        raise LdCacheError("cut off")
    count: int = _COUNT.unpack_from(data, at)[0]
    return count


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    if end < 0:
        return ""
    try:
        return data[at:end].decode()
    except UnicodeDecodeError:
        return ""
