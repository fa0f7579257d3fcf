"""Whether this is a virtual machine with an NVIDIA vGPU, and which driver its host runs.

The hypervisor tells in a vendor-specific capability in the PCI configuration space of the
virtual GPU: the signature ``VF``, then records of which the one with id 0 holds version and
branch of the host's driver. Every byte may be anything: nothing here reads past the end or
goes round in circles (k8s-device-plugin v0.19.3, internal/vgpu, does both).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_device_plugin.errors import HardwareError
from gpu_device_plugin.hardware.pci import nvidia_functions

CONFIG_BYTES = 256
"""Of the configuration space that are needed; without privileges there are 64."""
_STATUS = 0x06
_HAS_CAPABILITIES = 0x10
_FIRST_CAPABILITY = 0x34
_VENDOR_SPECIFIC = 0x09
_ABSENT = 0xFF
_SIGNATURE = b"VF"
_RECORDS = 5
"""Where records begin in the capability."""
_HOST_DRIVER = 0
"""The id of the record with the host's driver."""
_TEXT = 10
"""Bytes of a version, and of a branch."""


@dataclass(frozen=True, slots=True)
class HostDriver:
    """The driver of the host, as text that need not be printable."""

    version: str
    branch: str


@dataclass(frozen=True, slots=True)
class Vgpus:
    """What was found about virtual GPUs."""

    present: bool = False
    host_driver: HostDriver | None = None
    """None without vGPU, and where its record cannot be read."""
    problem: str = ""


def read_vgpus(sysfs: str = "/sys") -> Vgpus:
    """Looks at all NVIDIA devices; with several vGPUs the last one by address counts.

    Raises:
        HardwareError: a device cannot be read, so that nothing can be said.
    """
    found = Vgpus()
    for function in nvidia_functions(sysfs):
        config = function.read("config")
        if len(config) < CONFIG_BYTES:
            raise HardwareError(
                f"only {len(config)} of {CONFIG_BYTES} bytes of the configuration space of "
                f"{function.address} can be read, so that virtual GPUs cannot be told",
                "run the container privileged, or with the capability SYS_ADMIN",
            )
        capability = vendor_capability(config)
        if not is_vgpu(capability):
            continue
        driver = parse_host_driver(capability)
        problem = "" if driver else f"{function.address}: the vGPU tells no driver of its host"
        found = Vgpus(True, driver, problem)
    return found


def vendor_capability(config: bytes) -> bytes:
    """The first vendor-specific capability in a configuration space; empty if there is none."""
    if len(config) < CONFIG_BYTES or not config[_STATUS] & _HAS_CAPABILITIES:
        return b""
    position, seen = config[_FIRST_CAPABILITY], set[int]()
    while position and position not in seen:
        seen.add(position)
        # All three bytes lie within 256, or the chain has left what it may point to.
        if position + 2 >= CONFIG_BYTES or config[position] == _ABSENT:
            return b""
        if config[position] == _VENDOR_SPECIFIC:
            return config[position : min(position + config[position + 2], CONFIG_BYTES)]
        position = config[position + 1]
    return b""


def is_vgpu(capability: bytes) -> bool:
    """Whether the capability has the signature of a virtual GPU; passed-through GPUs lack it."""
    return len(capability) >= _RECORDS and capability[3:5] == _SIGNATURE


def parse_host_driver(capability: bytes) -> HostDriver | None:
    """The host's driver in a vGPU's capability; None if no whole record tells it."""
    for identifier, position in _records(capability):
        if identifier == _HOST_DRIVER:
            text = capability[position + 2 : position + 2 + 2 * _TEXT]
            if len(text) < 2 * _TEXT:
                return None
            version, branch = (part.decode("latin-1") for part in (text[:_TEXT], text[_TEXT:]))
            return HostDriver(version.strip("\0"), branch.strip("\0"))
    return None


def _records(capability: bytes) -> Iterator[tuple[int, int]]:
    """Id and position of each record; a length that leads nowhere ends them."""
    position = _RECORDS
    while position + 1 < len(capability):
        identifier, length = capability[position], capability[position + 1]
        yield identifier, position
        if length == 0:
            return
        position += length
