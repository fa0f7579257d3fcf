from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.elf import ElfError, sonames, sonames_of
from gpu_device_plugin.cdi.testing import elf


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda size, offset: data[offset : offset + size]


@pytest.mark.parametrize("names", [[], ["libcuda.so.1"], ["a", "b"], ["lib\u00fc.so"], [""]])
def test_sonames(names: list[str]) -> None:
    assert sonames(reader(elf(names))) == names


@pytest.mark.parametrize("order", ["<", ">"])
def test_32_bit_and_other_byte_order(order: str) -> None:
    entries, strings = struct.pack(order + "iIiI", 14, 1, 0, 0), b"\0libx.so.1\0"
    ident = b"\x7fELF\x01" + (b"\x01" if order == "<" else b"\x02")
    at = 52 + len(entries) + len(strings)
    header = ident.ljust(16, b"\0") + struct.pack(
        order + "HHIIIIIHHHHHH", 3, 3, 1, 0, 0, at, 0, 52, 32, 0, 40, 2, 0
    )
    dynamic = struct.pack(order + "10I", 0, 6, 0, 0, 52, len(entries), 1, 0, 4, 8)
    names = struct.pack(order + "10I", 0, 3, 0, 0, 52 + len(entries), len(strings), 0, 0, 1, 0)

    assert sonames(reader(header + entries + strings + dynamic + names)) == ["libx.so.1"]


def test_a_static_file_has_none() -> None:
    data = bytearray(elf(["x"]))
    data[60:62] = b"\0\0"  # e_shnum

    assert sonames(reader(bytes(data))) == []


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF", b"\x7fELF\x03\x01".ljust(200, b"\0")])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ElfError, match="not an ELF file"):
        sonames(reader(data))


DYNAMIC, DYNAMIC_SIZE, SECTIONS = 64, 32, 64 + 32 + len(b"\0libx.so\0")
"""Where `elf(["libx.so"])` has its parts."""


@pytest.mark.parametrize(
    ("at", "octets", "message"),
    [
        (DYNAMIC + 8, b"\xff\xff", "outside the string table"),
        (DYNAMIC + DYNAMIC_SIZE + 1, b"\xff", "not text"),
        (SECTIONS - 1, b"x", "has no end"),
        (SECTIONS + 64 + 40, b"\x09", "has no string table"),
        (SECTIONS + 64 + 32 + 4, b"\x01", "too large"),
        (SECTIONS + 64 + 32 + 2, b"\x01", "cut off"),
        (58, b"\x20", "unknown form"),
    ],
)
def test_what_is_wrong_is_told(at: int, octets: bytes, message: str) -> None:
    data = bytearray(elf(["libx.so"]))
    data[at : at + len(octets)] = octets

    with pytest.raises(ElfError, match=message):
        sonames(reader(bytes(data)))


@given(st.data())
def test_a_damaged_file(data: st.DataObject) -> None:
    damaged = bytearray(elf(["libcuda.so.1"]))
    for _ in range(data.draw(st.integers(0, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    with suppress(ElfError):
        assert len(sonames(reader(cut))) < len(cut)


@pytest.mark.parametrize("offset", [b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"\0\0\0\1\0\0\0\0"])
def test_offsets_that_no_file_has(offset: bytes, tmp_path: Path) -> None:
    data = bytearray(elf(["x"]))
    data[40:48] = offset  # e_shoff
    (tmp_path / "libx.so").write_bytes(data)
    fd = os.open(tmp_path / "libx.so", os.O_RDONLY)
    try:
        with pytest.raises(ElfError):
            sonames_of(fd)
    finally:
        os.close(fd)
