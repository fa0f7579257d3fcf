"""A stand-in for a machine's files, for tests, benchmarks and trying things out.

Device nodes and owners need no privileges: `FakeTree.system` tells of them without making them.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpu_device_plugin.cdi.system import System

_DYNAMIC_NULL, _DYNAMIC_SONAME = 0, 14
_SECTION_STRINGS, _SECTION_DYNAMIC = 3, 6


class FakeTree:
    """A directory that plays ``/``; paths are absolute in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._nodes: dict[tuple[int, int], os.stat_result] = {}

    def real(self, path: str) -> Path:
        """Where a path really is."""
        return self.directory / path.lstrip("/")

    def folder(self, path: str) -> None:
        """Makes a directory with its parents."""
        self.real(path).mkdir(parents=True, exist_ok=True)

    def file(self, path: str, content: bytes | str = b"", mode: int = 0o644) -> None:
        """Makes a file."""
        real = self._place(path)
        real.write_bytes(content.encode() if isinstance(content, str) else content)
        real.chmod(mode)

    def library(self, path: str, soname: str | None) -> None:
        """Makes a shared library that has nothing but its SONAME, if any."""
        self.file(path, elf(() if soname is None else (soname,)), 0o755)

    def link(self, path: str, target: str) -> None:
        """Makes a symbolic link."""
        self._place(path).symlink_to(target)

    def socket(self, path: str) -> None:
        """Makes a socket that nobody listens to."""
        os.mknod(self._place(path), stat.S_IFSOCK | 0o666)

    def node(self, path: str, major: int, minor: int, mode: int = 0o666, gid: int = 0) -> None:
        """Makes what looks like a character device through `system`."""
        real = self._place(path)
        real.touch()
        self._nodes[_identity(real.lstat())] = os.stat_result(
            (stat.S_IFCHR | mode, 0, 0, 1, 0, gid, 0, 0, 0, 0),
            {"st_rdev": os.makedev(major, minor)},
        )

    def system(self, base: System | None = None) -> System:
        """A machine whose files are these; the rest is that of `base`."""
        return replace(base or System(), prefix=str(self.directory), lstat=self._lstat)

    def _lstat(self, path: str) -> os.stat_result:
        info = os.lstat(path)
        return self._nodes.get(_identity(info), info)

    def _place(self, path: str) -> Path:
        real = self.real(path)
        real.parent.mkdir(parents=True, exist_ok=True)
        return real


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def elf(sonames: Iterable[str]) -> bytes:
    """A 64-bit little-endian ELF file with a dynamic section of these SONAMEs."""
    strings, entries = b"\0", b""
    for soname in sonames:
        entries += struct.pack("<qQ", _DYNAMIC_SONAME, len(strings))
        strings += soname.encode() + b"\0"
    entries += struct.pack("<qQ", _DYNAMIC_NULL, 0)
    header_size, section_size = 64, 64
    at_strings = header_size + len(entries)
    at_sections = at_strings + len(strings)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at_sections, 0, header_size, 56, 0, section_size, 3, 0
    )
    section = struct.Struct("<IIQQQQIIQQ")
    sections = (
        section.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        section.pack(0, _SECTION_DYNAMIC, 0, 0, header_size, len(entries), 2, 0, 8, 16),
        section.pack(0, _SECTION_STRINGS, 0, 0, at_strings, len(strings), 0, 0, 1, 0),
    )
    return b"".join((header, entries, strings, *sections))


def ld_cache(libraries: Iterable[tuple[str, str]], flags: int = 0x0303) -> bytes:
    """A linker cache that lists sonames with paths, by default for x86-64."""
    listed = list(libraries)
    strings, entries = b"", b""
    first = 48 + 24 * len(listed)
    for soname, path in listed:
        key, value = first + len(strings), first + len(strings) + len(soname.encode()) + 1
        entries += struct.pack("<iIIIQ", flags, key, value, 0, 0)
        strings += soname.encode() + b"\0" + path.encode() + b"\0"
    head = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(listed), len(strings)) + bytes(20)
    return head + entries + strings
