"""What kind of machine this is, from the firmware's tables (DMI) or a file of the user's."""

from __future__ import annotations

from gpu_device_plugin.errors import HardwareError

LONGEST = 65536


def read_machine_type(path: str) -> str:
    """The contents of the machine type file, whatever bytes they are.

    Raises:
        HardwareError: the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(LONGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HardwareError(
            f"the machine type cannot be read: {path}: {reason}",
            "--machine-type-file (GFD_MACHINE_TYPE_FILE) names the file",
        ) from None
