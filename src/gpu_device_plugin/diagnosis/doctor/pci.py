"""Which NVIDIA GPUs the machine has, told without any driver."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_device_plugin.cdi.paths import join
from gpu_device_plugin.diagnosis.doctor.host import Host
from gpu_device_plugin.diagnosis.doctor.model import Findings, Outcome, not_checked
from gpu_device_plugin.hardware.pci import DEVICES, GPU_CLASSES, NVIDIA

SYSFS = "/sys"
TEGRA = ("/etc/nv_tegra_release", "/sys/devices/soc0/family")
WSL = "/dev/dxg"
DRIVERS = ("nvidia", "vfio-pci")
"""What may hold a GPU: the driver, or a virtual machine to which it is passed through."""


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A GPU on the bus."""

    address: str
    driver: str
    """The kernel driver that has it; empty if none has."""


def find_gpus(host: Host) -> list[PciGpu] | None:
    """The GPUs on the PCI bus; None if the bus cannot be seen."""
    bus = join(SYSFS, DEVICES)
    if host.files.stat(bus) is None:
        return None
    found = []
    for name in host.files.listdir(bus):
        vendor = _number(host, join(bus, name, "vendor"))
        if vendor == NVIDIA and _number(host, join(bus, name, "class")) in GPU_CLASSES:
            link = host.files.readlink(join(bus, name, "driver"))
            found.append(PciGpu(name, (link or "").rpartition("/")[2]))
    return found


def _number(host: Host, path: str) -> int | None:
    try:
        return int((host.text(path) or "").strip(), 16)
    except ValueError:
        return None


def is_tegra(host: Host) -> bool:
    """Whether the machine is a Tegra, whose GPU is on no bus."""
    return host.exists(TEGRA[0]) or (host.text(TEGRA[1]) or "").lower().startswith("tegra")


def needs_driver(host: Host) -> bool:
    """Whether there is any sign of an NVIDIA GPU or of its driver."""
    return (
        bool(find_gpus(host))
        or is_tegra(host)
        or host.exists(WSL)
        or host.exists("/proc/driver/nvidia/version")
    )


def describe_hardware(host: Host) -> Outcome:
    """What there is, and whether the driver has it."""
    find = Findings()
    gpus = find_gpus(host)
    if is_tegra(host):
        find.saw(f"{TEGRA[0]} or {TEGRA[1]} says that this is a Tegra")
        return find.outcome("the integrated GPU of a Tegra")
    if host.exists(WSL):
        find.saw(f"{WSL} is there: Windows Subsystem for Linux")
        return find.outcome("the GPUs of a Windows host (WSL)")
    where = host.files.outer(join(SYSFS, DEVICES))
    if gpus is None:
        return not_checked(f"{where} cannot be seen from here")
    if not gpus:
        return not_checked(
            f"this machine has no NVIDIA GPU: {where} lists none of vendor 10de",
            "on a machine that should have one: lspci -d 10de:, then the slot, the firmware's "
            "settings (above 4G decoding), or the virtual machine's pass-through",
        )
    for gpu in gpus:
        find.saw(f"{gpu.address}: kernel driver {gpu.driver or 'none'}")
    for gpu in gpus:
        if gpu.driver == "nouveau":
            find.fail(
                f"{gpu.address} is held by nouveau",
                "blacklist nouveau in /etc/modprobe.d, rebuild the initramfs, reboot",
            )
        elif gpu.driver not in DRIVERS:
            find.fail(
                f"{gpu.address} has no driver"
                if not gpu.driver
                else f"{gpu.address} is held by {gpu.driver}",
                "modprobe nvidia; dmesg | grep -i -e nvrm -e nvidia",
            )
    passed = [gpu for gpu in gpus if gpu.driver == "vfio-pci"]
    if passed and len(passed) < len(gpus):
        find.saw(f"{len(passed)} are passed through to virtual machines and not offered here")
    return find.outcome(f"{len(gpus)} on the PCI bus")
