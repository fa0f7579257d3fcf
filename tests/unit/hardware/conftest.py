"""A node behind the NVML C ABI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import nvmlsim

from gpu_device_plugin.hardware.backend import NvmlBackend
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.hardware.nvml import library, read
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend


@dataclass
class NvmlNode:
    """A simulated NVML library below a driver root of its own."""

    root: Path
    profile: Path
    events: Path
    truth: Inventory
    links: Links
    backend: NvmlBackend

    def describe(self, extra: Iterable[str] = ()) -> None:
        """(Re)writes what the library knows; it looks at its next first initialisation."""
        self.profile.write_text(nvmlsim.profile_text(self.truth, self.links, extra))

    def happen(self, *lines: str) -> None:
        """Lets events happen."""
        with self.events.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="session")
def nvml_library() -> Path:
    if nvmlsim.COMPILER is None:
        pytest.skip("no C compiler to build the NVML simulator with")
    return nvmlsim.build()


@pytest.fixture
def nvml_node(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., NvmlNode]:
    def make(profile: str, *extra: str) -> NvmlNode:
        simulated = SimulatedBackend.from_profile(profile)
        truth = simulated.read()
        links = simulated.read_links(truth, lambda: False)
        directory = tmp_path / "root/usr/lib64"
        directory.mkdir(parents=True)
        os.symlink(nvml_library, directory / "libnvidia-ml.so.1")
        events = tmp_path / "events"
        events.touch()
        node = NvmlNode(
            tmp_path / "root",
            tmp_path / "profile",
            events,
            truth,
            links,
            NvmlBackend(str(tmp_path / "root")),
        )
        node.describe(extra)
        monkeypatch.setenv("NVMLSIM_PROFILE", str(node.profile))
        monkeypatch.setenv("NVMLSIM_EVENTS", str(events))
        return node

    return make


@pytest.fixture
def node(nvml_node, monkeypatch):
    """A node whose sysfs and procfs tell the same as the simulated inventory."""

    def make(profile: str, *extra: str):
        made = nvml_node(profile, *extra)
        numa = {gpu.pci_bus_id: gpu.numa_node for gpu in made.truth.gpus}
        monkeypatch.setattr(read, "read_numa_node", lambda bus_id, _: numa.get(bus_id))
        monkeypatch.setattr(read, "read_mig_minors", lambda: nvmlsim.minors_of(made.truth))
        return made

    return make


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if NVML were nowhere: a library that was loaded once is found by its name for ever."""
    monkeypatch.setattr(library, "LIBRARY_NAME", "libnvidia-ml-absent.so.1")
