"""Compute modes, through nvidia-smi or through NVML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import nvmlsim
from support.aio import run

from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.mps import compute_mode as module
from gpu_device_plugin.mps.compute_mode import (
    ComputeMode,
    ComputeModeError,
    DriverComputeModes,
    SimulatedComputeModes,
    reset_all,
)


def test_nvidia_smi_is_asked_as_the_original_does(tools):
    modes = tools.around().modes
    run(modes.set("GPU-7", ComputeMode.EXCLUSIVE_PROCESS))
    run(modes.set("GPU-7", ComputeMode.DEFAULT))
    assert tools.journal() == ["smi -i GPU-7 -c EXCLUSIVE_PROCESS", "smi -i GPU-7 -c DEFAULT"]


def test_what_nvidia_smi_says_is_passed_on(tools):
    tools.turn("smi-fails")
    with pytest.raises(ComputeModeError, match=r"DEFAULT of GPU-7: .* 3, it says: told to fail"):
        run(tools.around().modes.set("GPU-7", ComputeMode.DEFAULT))


def test_nvidia_smi_that_hangs_is_killed(tools, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.05)
    tools.smi.write_text("#!/bin/sh\nsleep 60\n")
    with pytest.raises(ComputeModeError, match=r"nvidia-smi took more than 0\.05 s"):
        run(tools.around().modes.set("GPU-7", ComputeMode.DEFAULT))


def test_each_gpu_is_set_back_whatever_becomes_of_the_others(tools):
    tools.smi.write_text("#!/bin/sh\n[ $2 = GPU-1 ] && exit 9\nexit 0\n")
    problems = run(reset_all(tools.around().modes, ["GPU-0", "GPU-1", "GPU-2"]))
    assert len(problems) == 1
    assert "GPU-1" in problems[0]
    assert "it says: nothing" in problems[0]


def test_simulated_modes_are_remembered():
    modes = SimulatedComputeModes()
    run(modes.set("GPU-0", ComputeMode.EXCLUSIVE_PROCESS))
    run(modes.set("GPU-1", ComputeMode.DEFAULT))
    assert run(modes.exclusive()) == ("GPU-0",)


class Node:
    """Two simulated GPUs behind the NVML C ABI, and a driver without nvidia-smi."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *extra: str) -> None:
        backend = SimulatedBackend.from_profile("t4x4")
        inventory = backend.read()
        links = backend.read_links(inventory, lambda: False)
        directory = root / "usr/lib64"
        directory.mkdir(parents=True)
        os.symlink(nvmlsim.build(), directory / "libnvidia-ml.so.1")
        self.log = root / "log"
        profile = root / "profile"
        profile.write_text(nvmlsim.profile_text(inventory, links, extra))
        monkeypatch.setenv("NVMLSIM_PROFILE", str(profile))
        monkeypatch.setenv("NVMLSIM_LOG", str(self.log))
        self.gpus = [gpu.uuid for gpu in inventory.gpus]
        self.modes = DriverComputeModes(str(root / "no-smi"), str(root))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    if nvmlsim.COMPILER is None:
        pytest.skip("no C compiler to build the NVML simulator with")
    return Node(tmp_path, monkeypatch)


def test_without_nvidia_smi_nvml_sets_the_mode(node):
    run(node.modes.set(node.gpus[1], ComputeMode.EXCLUSIVE_PROCESS))
    run(node.modes.set(node.gpus[1], ComputeMode.DEFAULT))
    told = [line for line in node.log.read_text().splitlines() if "set_compute_mode" in line]
    assert told == ["set_compute_mode 1 3", "set_compute_mode 1 0"]


def test_a_gpu_that_nvml_does_not_know_is_named(node):
    with pytest.raises(ComputeModeError, match=r"GPU-none.*no-smi is not found either"):
        run(node.modes.set("GPU-none", ComputeMode.DEFAULT))


def test_without_a_driver_no_gpu_is_known_to_be_exclusive(tmp_path):
    directory = tmp_path / "usr/lib64"
    directory.mkdir(parents=True)
    (directory / "libnvidia-ml.so.1").touch()
    modes = DriverComputeModes(driver_root=str(tmp_path))
    assert run(modes.exclusive()) == ()


def test_nvml_tells_which_gpus_are_exclusive(node):
    assert run(node.modes.exclusive()) == ()
    # The modes of the simulation live as long as one initialisation does.
    from gpu_device_plugin.hardware.nvml.compute_mode import NvmlComputeMode  # noqa: PLC0415

    nvml = NvmlComputeMode(str(node.log.parent))
    with nvml._library.session():
        nvml.set(node.gpus[2], exclusive=True)
        assert nvml.exclusive() == (node.gpus[2],)


def test_nvml_that_hangs_is_given_up(node, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.05)

    async def hang(*_: object) -> None:
        import asyncio  # noqa: PLC0415

        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(module, "in_thread", hang)
    with pytest.raises(ComputeModeError, match="NVML takes more than"):
        run(node.modes.set(node.gpus[0], ComputeMode.DEFAULT))
    assert run(node.modes.exclusive()) == ()
