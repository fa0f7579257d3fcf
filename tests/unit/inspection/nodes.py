"""A node whose driver is made up, for tests of what is made of it; needs no privileges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.inventories import a_gpu

from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.cdi.testing import FakeTree
from gpu_device_plugin.hardware.model import Gpu, Inventory, Platform

VERSION = "550.127.05"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
CONTROL = {"nvidiactl": (195, 255), "nvidia-uvm": (510, 0), "nvidia-uvm-tools": (510, 1)}
MACHINE = System(search_path="/usr/bin", kernel_release="6.1")
CHANNEL = "dev/nvidia-caps-imex-channels/channel0"


class MadeUpNode:
    """Two GPUs, 0 and 1 with device nodes 10 and 11, and a driver below a root of its own."""

    def __init__(self, directory: Path, version: str = VERSION) -> None:
        self.tree = FakeTree(directory / "driver")
        self.root = str(self.tree.directory)
        self.inventory = Inventory(
            Platform.NVML, (a_gpu(0), a_gpu(1)), driver_version=version, cuda_driver_version=12040
        )
        for name in ("cuda", "nvidia-ml"):
            self.tree.library(f"{LIBRARIES}/lib{name}.so.{version}", f"lib{name}.so.1")
            self.tree.link(f"{LIBRARIES}/lib{name}.so.1", f"lib{name}.so.{version}")
        for name, (major, minor) in CONTROL.items():
            self.tree.node(f"/dev/{name}", major, minor)
        for gpu in self.inventory.gpus:
            self.tree.node(f"/dev/nvidia{gpu.minor}", 195, gpu.minor)

    def add(self, *gpus: Gpu) -> None:
        """More GPUs, without device nodes."""
        self.inventory = replace(self.inventory, gpus=(*self.inventory.gpus, *gpus))

    def add_channel(self) -> None:
        """IMEX channel 0, which must be a character device for anybody who asks."""
        self.tree.link(CHANNEL, "/dev/null")

    def take_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes this the machine on which the tests run."""
        machine = replace(self.tree.system(MACHINE), prefix="")
        monkeypatch.setattr(System, "current", lambda: machine)
