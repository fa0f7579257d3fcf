from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_device_plugin.cdi.ldcache import LdCacheError, parse
from gpu_device_plugin.cdi.testing import ld_cache

SAMPLE = ld_cache([("libcuda.so.1", "/usr/lib64/libcuda.so.1"), ("libx.so", "/opt/libx.so")])


def test_paths_in_order() -> None:
    assert parse(SAMPLE) == ["/usr/lib64/libcuda.so.1", "/opt/libx.so"]


@pytest.mark.parametrize("entries", [0, 1, 2, 3])
def test_an_old_cache_before_it_is_skipped(entries: int) -> None:
    old = b"ld.so-1.7.0\0" + struct.pack("<I", entries) + bytes(12 * entries)
    padding = bytes(-len(old) % 8)

    assert parse(old + padding + SAMPLE) == parse(SAMPLE)


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (0x0303, True),
        (0x0A03, True),
        (0x0503, True),
        (0x0003, False),
        (0x0803, False),
        (0x0903, False),
        (0x0300, False),
    ],
)
def test_architectures(flags: int, kept: bool) -> None:
    assert bool(parse(ld_cache([("libx.so", "/libx.so")], flags))) is kept


def test_a_path_is_listed_once() -> None:
    assert parse(ld_cache([("a", "/x"), ("b", "/x"), ("", "/y"), ("c", ""), ("d", "y")])) == ["/x"]


@pytest.mark.parametrize(
    "data", [b"", b"ld.so-1.7.0\0", b"\x7fELF" * 40, SAMPLE[:47], SAMPLE[:60], SAMPLE.upper()]
)
def test_what_is_no_cache_is_refused(data: bytes) -> None:
    with pytest.raises(LdCacheError):
        parse(data)


def test_offsets_beyond_the_data_are_left_out() -> None:
    head, entry = SAMPLE[:48], struct.pack("<iIIIQ", 0x0303, 0xFFFFFFF0, 0xFFFFFFF0, 0, 0)

    assert parse(head + entry * 2 + SAMPLE[96:]) == []


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    for start in (b"", b"glibc-ld.so.cache1.1", b"ld.so-1.7.0\0"):
        with suppress(LdCacheError):
            assert all(path.startswith("/") for path in parse(start + data))


@given(st.data())
def test_a_damaged_cache(data: st.DataObject) -> None:
    damaged = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(LdCacheError):
        assert len(parse(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))) <= 2
