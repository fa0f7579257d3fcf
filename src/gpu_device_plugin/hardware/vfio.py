"""GPUs that are passed through to virtual machines: bound to ``vfio-pci``, seen in sysfs only."""

from __future__ import annotations

import logging

from gpu_device_plugin.errors import HardwareError, InitError
from gpu_device_plugin.hardware.model import Gpu, Inventory, Platform, UnreadableGpu
from gpu_device_plugin.hardware.pci import GPU_CLASSES, PciFunction, nvidia_functions
from gpu_device_plugin.hardware.pci_names import product_name

log = logging.getLogger(__name__)

DRIVER = "vfio-pci"
NO_COMPUTE = (-1, -1)
"""What k8s-device-plugin takes for the compute capability where there is no driver to ask."""


def read_vfio_inventory(sysfs: str = "/sys") -> Inventory:
    """The GPUs that are bound to ``vfio-pci``; virtual functions (SR-IOV) do not count.

    Raises:
        InitError: there is no PCI bus, or it cannot be read.
    """
    try:
        functions = nvidia_functions(sysfs)
    except HardwareError as error:
        raise InitError(f"PCI devices cannot be read: {error}") from None
    gpus, unreadable = list[Gpu](), list[UnreadableGpu]()
    for function in functions:
        number = len(gpus) + len(unreadable)
        try:
            if _is_passed_through(function):
                gpus.append(_read_gpu(function, number))
        except HardwareError as error:
            unreadable.append(UnreadableGpu(number, str(error)))
    return Inventory(Platform.VFIO, tuple(gpus), tuple(unreadable))


def _is_passed_through(function: PciFunction) -> bool:
    if function.number("class") not in GPU_CLASSES or function.link("physfn"):
        return False
    driver = function.link("driver")
    if driver != DRIVER:
        log.info("GPU %s is bound to %s, not to %s", function.address, driver or "none", DRIVER)
    return driver == DRIVER


def _read_gpu(function: PciFunction, number: int) -> Gpu:
    device = function.number("device")
    size = function.memory_64_bit()
    return Gpu(
        index=number,
        uuid="",
        minor=number,
        name=product_name(device),
        # The aperture of the memory is the next larger power of two.
        memory_bytes=1 << (size - 1).bit_length() if size else 0,
        compute_capability=NO_COMPUTE,
        pci_bus_id=function.address,
        pci_device_id=device << 16 | function.number("vendor"),
    )
