from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.hardware.vgpu import (
    CONFIG_BYTES,
    HostDriver,
    is_vgpu,
    parse_host_driver,
    read_vgpus,
    vendor_capability,
)

VERSION, BRANCH = b"460.16\0\0\0\0", b"r460_00\0\0\0"
RECORD = b"\x00\x16" + VERSION + BRANCH
CAPABILITY = b"\x09\x68\x1bVF" + RECORD


def a_config(capability: bytes = CAPABILITY, at: int = 0x60, *, status: int = 0x10) -> bytes:
    config = bytearray(CONFIG_BYTES)
    config[0x06], config[0x34] = status, at
    config[at : at + len(capability)] = capability[: CONFIG_BYTES - at]
    return bytes(config)


def test_the_worked_capability_tells_version_and_branch() -> None:
    assert vendor_capability(a_config()) == CAPABILITY
    assert is_vgpu(CAPABILITY)
    assert parse_host_driver(CAPABILITY) == HostDriver("460.16", "r460_00")


def test_capabilities_before_it_are_passed_over() -> None:
    config = bytearray(a_config())
    config[0x34] = 0x40
    config[0x40:0x43] = b"\x10\x60\x00"

    assert vendor_capability(bytes(config)) == CAPABILITY


@pytest.mark.parametrize(
    "config",
    [
        b"",
        a_config()[:64],
        a_config(status=0),
        a_config(at=0),
        a_config(b"\xff\x60\x1b"),
        a_config(b"\x10\x60\x00"),
        a_config(b"\x10\xfe\x00"),
        a_config(b"\x09", at=0xFF),
    ],
)
def test_chains_that_lead_nowhere_have_no_capability(config: bytes) -> None:
    assert vendor_capability(config) == b""


def test_a_capability_ends_with_the_configuration_space() -> None:
    found = vendor_capability(a_config(CAPABILITY, at=0xF0))

    assert found == CAPABILITY[:16]
    assert parse_host_driver(found) is None


@pytest.mark.parametrize(
    "capability",
    [
        b"",
        b"\x09\x00\x05VF",
        b"\x09\x00\x06VF\x00",
        b"\x09\x00\x0aVF\x00\x16460",
        b"\x09\x00\x1fVF\x02\x00" + RECORD,
        b"\x09\x00\x10VF\x02\x0c" + b"\0" * 9,
        b"\x09\x00\x10VF\x02\xff" + b"\0" * 9,
    ],
)
def test_records_that_are_cut_off_or_go_round_in_circles_tell_nothing(capability: bytes) -> None:
    assert parse_host_driver(capability) is None


def test_records_before_it_are_passed_over() -> None:
    capability = b"\x09\x00\x20VF\x02\x05abc" + RECORD

    assert parse_host_driver(capability) == HostDriver("460.16", "r460_00")


def test_every_byte_is_a_character_and_nuls_go_at_the_ends_only() -> None:
    record = b"\x00\x16" + b"\0\xff/\0/\n\0\0\0\0" + b"          "

    assert parse_host_driver(b"\x09\x00\x1bVF" + record) == HostDriver("\xff/\0/\n", " " * 10)


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_no_bytes_crash_it_or_keep_it_busy(data: bytes) -> None:
    for config in (data, a_config(data[:100]), bytes(256 - len(data[:250])) + data[:250]):
        capability = vendor_capability(config)
        assert capability in config
        assert isinstance(is_vgpu(capability), bool)
        driver = parse_host_driver(b"\x09\x00\x00VF" + data)
        assert driver is None or (len(driver.version) <= 10 and len(driver.branch) <= 10)


class TestSysfs:
    def add(self, root: Path, name: str, config: bytes, vendor: str = "0x10de") -> Path:
        directory = root / "bus/pci/devices" / name
        directory.mkdir(parents=True)
        (directory / "vendor").write_text(vendor + "\n")
        (directory / "config").write_bytes(config)
        return directory

    def test_the_last_vgpu_counts(self, tmp_path: Path) -> None:
        other = CAPABILITY.replace(b"460.16", b"535.10")
        self.add(tmp_path, "0000:03:00.0", a_config(other))
        self.add(tmp_path, "0000:02:00.0", a_config())
        self.add(tmp_path, "0000:04:00.0", a_config(b""), vendor="0x8086")
        self.add(tmp_path, "0000:05:00.0", a_config(b"\x09\x00\x1bXX"))
        found = read_vgpus(str(tmp_path))

        assert found.present
        assert found.host_driver == HostDriver("535.10", "r460_00")
        assert not found.problem

    def test_without_one_there_is_none(self, tmp_path: Path) -> None:
        self.add(tmp_path, "0000:02:00.0", a_config(b""))

        assert not read_vgpus(str(tmp_path)).present

    def test_one_that_tells_nothing_is_a_problem(self, tmp_path: Path) -> None:
        self.add(tmp_path, "0000:02:00.0", a_config(b"\x09\x00\x0aVF\x00\x16460"))
        found = read_vgpus(str(tmp_path))

        assert found.present
        assert found.host_driver is None
        assert "0000:02:00.0" in found.problem

    def test_a_short_space_asks_for_privileges(self, tmp_path: Path) -> None:
        self.add(tmp_path, "0000:02:00.0", bytes(64))

        with pytest.raises(HardwareError, match=r"64 of 256 bytes.*privileged"):
            read_vgpus(str(tmp_path))

    @pytest.mark.parametrize("missing", ["vendor", "config"])
    def test_a_file_that_is_missing_is_named(self, tmp_path: Path, missing: str) -> None:
        directory = self.add(tmp_path, "0000:02:00.0", a_config())
        (directory / missing).unlink()

        with pytest.raises(HardwareError, match=f"0000:02:00.0/{missing} cannot be read"):
            read_vgpus(str(tmp_path))

    def test_a_bus_that_is_missing_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(HardwareError, match="bus/pci/devices cannot be read"):
            read_vgpus(str(tmp_path))
