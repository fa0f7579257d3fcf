"""How long CDI specifications take for 8 GPUs in 56 MIG devices.

The floor, taken in the same run, is what the operating system needs for the same file accesses
alone. The goal is no more than 60 ms above it.

    python benchmarks/cdi.py [RUNS]
"""

from __future__ import annotations

import os
import stat
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpu_device_plugin.cdi.generate import GeneratedSpecs, generate
from gpu_device_plugin.cdi.options import CdiOptions
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.cdi.testing import FakeTree, ld_cache
from gpu_device_plugin.cdi.writer import write_specs
from gpu_device_plugin.hardware.model import (
    Gpu,
    Inventory,
    MigAttributes,
    MigDevice,
    MigProfile,
    Platform,
)

GOAL_MS = 60.0
VERSION = "550.163.01"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
DRIVER = [
    "libEGL_nvidia",
    "libGLESv1_CM_nvidia",
    "libGLESv2_nvidia",
    "libGLX_nvidia",
    "libcuda",
    "libcudadebugger",
    "libnvcuvid",
    "libnvidia-allocator",
    "libnvidia-api",
    "libnvidia-cfg",
    "libnvidia-eglcore",
    "libnvidia-encode",
    "libnvidia-fbc",
    "libnvidia-glcore",
    "libnvidia-glsi",
    "libnvidia-glvkspirv",
    "libnvidia-gpucomp",
    "libnvidia-gtk3",
    "libnvidia-ml",
    "libnvidia-ngx",
    "libnvidia-nvvm",
    "libnvidia-opencl",
    "libnvidia-opticalflow",
    "libnvidia-pkcs11-openssl3",
    "libnvidia-pkcs11",
    "libnvidia-ptxjitcompiler",
    "libnvidia-rtcore",
    "libnvidia-tls",
    "libnvidia-vulkan-producer",
    "libnvidia-wayland-client",
    "libnvoptix",
]
BINARIES = [
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
]
OTHER_LIBRARIES = 1200  # as on a server with the usual packages


def plant(tree: FakeTree) -> None:
    plant_driver(tree)
    plant_other_libraries(tree)
    plant_devices(tree)


def plant_driver(tree: FakeTree) -> None:
    tree.folder("/driver-root/usr/lib")
    tree.link("/driver-root/lib", "usr/lib")
    for name in DRIVER:
        tree.library(f"/driver-root{LIBRARIES}/{name}.so.{VERSION}", f"{name}.so.1")
        tree.link(f"/driver-root{LIBRARIES}/{name}.so.1", f"{name}.so.{VERSION}")
        tree.link(f"/driver-root{LIBRARIES}/{name}.so", f"{name}.so.1")
    for name in BINARIES:
        tree.file(f"/driver-root/usr/bin/{name}", mode=0o755)
    for name in ("gsp_ga10x.bin", "gsp_tu10x.bin"):
        tree.file(f"/driver-root/usr/lib/firmware/nvidia/{VERSION}/{name}")


def plant_other_libraries(tree: FakeTree) -> None:
    cached = []
    for number in range(OTHER_LIBRARIES):
        name = f"libother{number}.so"
        tree.file(f"/driver-root{LIBRARIES}/{name}.1.2.3")
        tree.link(f"/driver-root{LIBRARIES}/{name}.1", f"{name}.1.2.3")
        cached.append((f"{name}.1", f"{LIBRARIES}/{name}.1"))
    tree.file("/driver-root/etc/ld.so.cache", ld_cache(cached))


def plant_devices(tree: FakeTree) -> None:
    minors = ["config 1", "monitor 2"]
    for number, name in enumerate(
        ("nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl")
    ):
        tree.node(f"/driver-root/dev/{name}", 195, 240 + number)
    for gpu in range(8):
        tree.node(f"/driver-root/dev/nvidia{gpu}", 195, gpu)
        for instance in range(15):
            first = 3 + gpu * 135 + instance * 9
            minors.append(f"gpu{gpu}/gi{instance}/access {first}")
            minors += [f"gpu{gpu}/gi{instance}/ci{ci}/access {first + 1 + ci}" for ci in range(8)]
            for minor in range(first, first + 9):
                tree.node(f"/driver-root/dev/nvidia-caps/nvidia-cap{minor}", 237, minor, 0o444)
    tree.file("/proc/driver/nvidia-caps/mig-minors", "\n".join(minors) + "\n")


def inventory() -> Inventory:
    profile, share = MigProfile(1, 1, 5), MigAttributes(14, 1, 0, 0, 0, 0, 1, 1, 4864)
    gpus = tuple(
        Gpu(
            index=gpu,
            uuid=f"GPU-{gpu:032x}",
            minor=gpu,
            name="NVIDIA A100-SXM4-40GB",
            pci_bus_id=f"00000000:{gpu:02X}:00.0",
            mig_enabled=True,
            mig_devices=tuple(
                MigDevice(slot, f"MIG-{gpu:02x}{slot:030x}", slot + 7, 0, profile, share, 0)
                for slot in range(7)
            ),
        )
        for gpu in range(8)
    )
    return Inventory(Platform.NVML, gpus, driver_version=VERSION, cuda_driver_version=12040)


class Recorder:
    """Remembers the file accesses of one generation, to do them again without the rest."""

    def __init__(self) -> None:
        self.looked_at: list[str] = []
        self.other: list[tuple[str, str]] = []
        self.recording = False
        sys.addaudithook(self._audit)

    def lstat(self, inner: Callable[[str], os.stat_result]) -> Callable[[str], os.stat_result]:
        def recorded(path: str) -> os.stat_result:
            self.looked_at.append(path)
            return inner(path)

        return recorded

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.recording and event in {"open", "os.listdir"}:
            self.other.append((event, str(arguments[0])))

    def replay(self) -> None:
        for path in self.looked_at:
            with suppress(OSError):
                if stat.S_ISLNK(os.lstat(path).st_mode):
                    os.readlink(path)
        for event, path in self.other:
            if event == "os.listdir":
                os.listdir(path)
            elif not path.isdecimal():
                os.close(os.open(path, os.O_RDONLY))


def milliseconds(work: Callable[[], object], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1000)
    return times


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    options = CdiOptions(driver_root="/driver-root", target_driver_root="/")
    with tempfile.TemporaryDirectory() as directory:
        tree = FakeTree(Path(directory))
        plant(tree)
        machine, node = tree.system(System.current()), inventory()

        def make() -> GeneratedSpecs:
            return generate(options, node, machine)

        first = milliseconds(make, 1)[0]
        times = milliseconds(make, runs)
        specs = make()
        writing = milliseconds(lambda: write_specs(specs, directory + "/cdi"), runs)
        recorder = Recorder()
        recorder.recording = True
        generate(options, node, replace(machine, lstat=recorder.lstat(machine.lstat)))
        recorder.recording = False
        floor = milliseconds(recorder.replay, runs)

    median, bare = statistics.median(times), statistics.median(floor)
    print(f"devices                 {len(specs.specs[0].devices)}")
    print(f"file accesses           {len(recorder.looked_at) + len(recorder.other)}")
    print(f"floor, median           {bare:7.1f} ms")
    print(f"generation, first       {first:7.1f} ms")
    print(f"generation, median      {median:7.1f} ms, slowest {max(times):.1f} ms")
    print(f"writing, median         {statistics.median(writing):7.1f} ms")
    print(f"above the floor         {median - bare:7.1f} ms (goal {GOAL_MS:.0f})")
    return int(median - bare > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
