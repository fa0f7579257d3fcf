"""The parts of the machine that decide a specification beside options and inventory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_device_plugin.cdi.dxcore import driver_stores


@dataclass(frozen=True, slots=True)
class System:
    """An edge that tests and tools can replace, as a whole or member by member."""

    prefix: str = ""
    """Directory that stands for ``/``: every file is read below it, none outside."""
    lstat: Callable[[str], os.stat_result] = os.lstat
    """How a path, with the prefix, is looked at without following a link; raises OSError."""
    search_path: str = ""
    """The process's ``PATH``: binaries of the driver are looked for in this order."""
    xdg_data_dirs: str = ""
    """The process's ``XDG_DATA_DIRS``."""
    kernel_release: str = ""
    """As ``uname -r`` prints it."""
    machine: str = "x86_64"
    """As ``uname -m`` prints it."""
    driver_stores: Callable[[], Sequence[str]] = driver_stores
    """Directories of the Windows driver, on WSL; raises HardwareError."""

    @classmethod
    def current(cls) -> System:
        """The machine on which this process runs."""
        uname = os.uname()
        return cls(
            search_path=os.environ.get("PATH", ""),
            xdg_data_dirs=os.environ.get("XDG_DATA_DIRS", ""),
            kernel_release=uname.release,
            machine=uname.machine,
        )
