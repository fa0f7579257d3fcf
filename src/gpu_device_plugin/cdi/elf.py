"""The SONAME of a shared library, read without trusting the file."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import NamedTuple

Read = Callable[[int, int], bytes]
"""Reads up to so many bytes from an offset, like `os.pread` without the descriptor."""

_MAX_TABLE = 4 << 20
"""Bytes of a section table or dynamic section; real ones are a few kilobytes."""
_MAX_NAME = 4096
_DYNAMIC = 6  # SHT_DYNAMIC
_SONAME = 14  # DT_SONAME


class ElfError(ValueError):
    """The file is not an ELF file, or a broken one."""


class _Format(NamedTuple):
    header: struct.Struct
    section: struct.Struct
    entry: struct.Struct


class _Section(NamedTuple):
    type: int
    offset: int
    size: int
    link: int


def _formats(order: str) -> dict[int, _Format]:
    # Per class: header from e_type on, section header, dynamic entry.
    return {
        1: _Format(
            struct.Struct(order + "HHIIIIIHHHHHH"),
            struct.Struct(order + "10I"),
            struct.Struct(order + "iI"),
        ),
        2: _Format(
            struct.Struct(order + "HHIQQQIHHHHHH"),
            struct.Struct(order + "IIQQQQIIQQ"),
            struct.Struct(order + "qQ"),
        ),
    }


_FORMATS = {1: _formats("<"), 2: _formats(">")}


def sonames_of(fd: int) -> list[str]:
    """As `sonames`, of an open file."""
    return sonames(lambda size, offset: os.pread(fd, size, offset))


def sonames(read: Read) -> list[str]:
    """The DT_SONAME entries of the dynamic section; usually one, none in a static file.

    Raises:
        ElfError: the file is not ELF, cut off, or points outside itself.
    """
    ident = read(16, 0)
    form = _FORMATS.get(ident[5], {}).get(ident[4]) if len(ident) == 16 else None
    if form is None or ident[:4] != b"\x7fELF":
        raise ElfError("not an ELF file")
    sections = _sections(read, form)
    dynamic = next((s for s in sections if s.type == _DYNAMIC), None)
    if dynamic is None:
        return []
    if dynamic.link >= len(sections):
        raise ElfError("its dynamic section has no string table")
    strings = sections[dynamic.link]
    data = _exactly(read, dynamic.size, dynamic.offset)
    whole = len(data) - len(data) % form.entry.size
    return [
        _string(read, strings, value)
        for tag, value in form.entry.iter_unpack(data[:whole])
        if tag == _SONAME
    ]


def _sections(read: Read, form: _Format) -> list[_Section]:
    fields = form.header.unpack(_exactly(read, form.header.size, 16))
    offset, entry_size, count = fields[5], fields[10], fields[11]
    if count == 0:
        return []
    if entry_size != form.section.size:
        raise ElfError("its section table has an unknown form")
    table = _exactly(read, entry_size * count, offset)
    return [
        _Section(type=s[1], offset=s[4], size=s[5], link=s[6])
        for s in form.section.iter_unpack(table)
    ]


def _string(read: Read, strings: _Section, at: int) -> str:
    if at >= strings.size:
        raise ElfError("its SONAME lies outside the string table")
    data = _read(read, min(_MAX_NAME, strings.size - at), strings.offset + at)
    name, end, _ = data.partition(b"\0")
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise ElfError("its SONAME is not text") from error
    if not end:
        raise ElfError("its SONAME has no end")
    return text


def _exactly(read: Read, size: int, offset: int) -> bytes:
    if size > _MAX_TABLE:
        raise ElfError("one of its tables is too large")
    data = _read(read, size, offset)
    if len(data) != size:
        raise ElfError("it is cut off")
    return data


def _read(read: Read, size: int, offset: int) -> bytes:
    try:
        return read(size, offset)
    except (OSError, OverflowError) as error:  # an offset that no file has
        raise ElfError(f"cannot be read: {error}") from error
