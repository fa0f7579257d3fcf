"""A simulated node with a driver that is made up, for CDI."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpu_device_plugin.cdi.testing import FakeTree
from support.commands import ENVIRON, RUN, Done, run_program

VERSION = "535.183.06"
"""Of the driver of the simulated node ``t4x4``."""
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
NODES = {
    "nvidiactl": (195, 255),
    "nvidia-modeset": (195, 254),
    "nvidia-uvm": (510, 0),
    "nvidia-uvm-tools": (510, 1),
    **{f"nvidia{number}": (195, number) for number in range(4)},
}
FILE = "k8s.device-plugin.nvidia.com-gpu.json"


class Node:
    """A simulated node with four GPUs and a driver root."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "driver"
        self.cdi = directory / "cdi"
        tree = FakeTree(self.root)
        for name in ("cuda", "nvidia-ml"):
            tree.library(f"{LIBRARIES}/lib{name}.so.{VERSION}", f"lib{name}.so.1")
            tree.link(f"{LIBRARIES}/lib{name}.so.1", f"lib{name}.so.{VERSION}")
        tree.file("/usr/bin/nvidia-smi", mode=0o755)
        tree.file("/usr/bin/nvidia-ctk", mode=0o755)
        tree.folder("/dev")
        for name in NODES:
            self.make_node(name)
        self.environ = {
            **ENVIRON,
            "GPU_NODE_SIMULATE": "t4x4",
            "DRIVER_ROOT_CTR_PATH": str(self.root),
            "DEVICE_LIST_STRATEGY": "cdi-cri",
        }

    def make_node(self, name: str, number: tuple[int, int] | None = None) -> None:
        path = self.root / "dev" / name
        path.unlink(missing_ok=True)
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*(number or NODES[name])))
        except PermissionError:
            pytest.skip("only root can make device nodes")
        path.chmod(0o666)

    def command(self, *arguments: str) -> Done:
        """Runs ``gpu-node cdi``; there never is a traceback."""
        return run_program(RUN, "cdi", *arguments, environ=self.environ)

    def generate(self, *arguments: str) -> Done:
        done = self.command("generate", "--output-dir", str(self.cdi), *arguments)
        assert done.code == 0, done.err
        return done

    def diff(self, *arguments: str) -> Done:
        return self.command("diff", "--spec-dir", str(self.cdi), *arguments)
