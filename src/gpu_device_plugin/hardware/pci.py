"""PCI functions as sysfs shows them (Documentation/ABI/testing/sysfs-bus-pci of the kernel)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gpu_device_plugin.errors import HardwareError

NVIDIA = 0x10DE
VGA_CONTROLLER = 0x030000
CONTROLLER_3D = 0x030200
GPU_CLASSES = frozenset({VGA_CONTROLLER, CONTROLLER_3D})

DEVICES = "bus/pci/devices"
"""Below the root of sysfs; a directory for each function, named by its address."""
_MEMORY_TYPE = 0x06
_MEMORY_64_BIT = 0x04
_LARGEST = 65536


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function of a PCI device."""

    directory: str

    @property
    def address(self) -> str:
        """Such as ``0000:3b:00.0``."""
        return os.path.basename(self.directory)

    def number(self, name: str) -> int:
        """The number in a file such as ``vendor``.

        Raises:
            HardwareError: the file cannot be read, or holds something else.
        """
        text = self.read(name).decode("ascii", "replace").strip()
        try:
            return int(text, 16)
        except ValueError:
            raise HardwareError(f"{self.directory}/{name} holds {text[:40]!r}, no number") from None

    def read(self, name: str) -> bytes:
        """The contents of a file.

        Raises:
            HardwareError: it cannot be read.
        """
        try:
            with open(os.path.join(self.directory, name), "rb") as file:
                return file.read(_LARGEST)
        except OSError as error:
            raise HardwareError(
                f"{self.directory}/{name} cannot be read: {error.strerror}"
            ) from None

    def link(self, name: str) -> str:
        """The last part of where a link leads; empty if there is no such link."""
        try:
            return os.path.basename(os.readlink(os.path.join(self.directory, name)))
        except OSError:
            return ""

    def memory_64_bit(self) -> int:
        """Bytes of all 64-bit base address registers (BAR 0 to 5).

        Raises:
            HardwareError: they cannot be read.
        """
        total = 0
        for line in self.read("resource").decode("ascii", "replace").splitlines()[:6]:
            try:
                start, end, flags = (int(word, 16) for word in line.split())
            except ValueError:
                raise HardwareError(
                    f"{self.directory}/resource: {line[:80]!r} is no base address register"
                ) from None
            if end > start and flags & _MEMORY_TYPE == _MEMORY_64_BIT:
                total += end - start + 1
        return total


def nvidia_functions(sysfs: str = "/sys") -> list[PciFunction]:
    """All functions of NVIDIA devices, by address.

    Raises:
        HardwareError: there is no PCI bus, or the vendor of a function cannot be read.
    """
    directory = os.path.join(sysfs, DEVICES)
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise HardwareError(f"{directory} cannot be read: {error.strerror}") from None
    functions = (PciFunction(os.path.join(directory, name)) for name in names)
    return [function for function in functions if function.number("vendor") == NVIDIA]


def pci_class(address: str, sysfs: str = "/sys") -> int:
    """The class code of a function, such as 0x030200.

    Raises:
        HardwareError: there is no such function, or its class cannot be read.
    """
    if not address:
        raise HardwareError("the PCI address is not known")
    return PciFunction(os.path.join(sysfs, DEVICES, address)).number("class")
