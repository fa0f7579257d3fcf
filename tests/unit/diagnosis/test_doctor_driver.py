from __future__ import annotations

import pytest
from support.doctor import Machine, failures, some_facts, steps, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict

LIB = "/usr/lib/x86_64-linux-gnu"
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct  8 03:22:07 UTC 2024\n"
)
OPEN_VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
NODES = (
    ("/dev/nvidia0", 195, 0),
    ("/dev/nvidia1", 195, 1),
    ("/dev/nvidiactl", 195, 255),
    ("/dev/nvidia-uvm", 510, 0),
)


def a_driver(machine: Machine, version: str = "550.127.05", root: str = "") -> None:
    for name in ("libnvidia-ml.so", "libcuda.so"):
        machine.tree.library(f"{root}{LIB}/{name}.{version}", f"{name}.1")
        if not machine.tree.real(f"{root}{LIB}/{name}.1").is_symlink():
            machine.tree.link(f"{root}{LIB}/{name}.1", f"{name}.{version}")


def a_module(machine: Machine, text: str = VERSION, modules: str = "nvidia nvidia_uvm") -> None:
    machine.tree.file("/proc/driver/nvidia/version", text)
    lines = (f"{name} 1 0 - Live 0x0\n" for name in modules.split())
    machine.tree.file("/proc/modules", "".join(lines))


class TestHardware:
    def test_gpus_with_the_driver_are_well(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)
        machine.gpu_on_bus(1)
        machine.gpu_on_bus(2, vendor="0x8086", driver="i915")

        outcome = machine.check("hardware")

        assert outcome.verdict is Verdict.OK
        assert outcome.summary == "2 on the PCI bus"
        assert "0000:00:00.0: kernel driver nvidia" in outcome.evidence

    def test_a_machine_without_gpus_is_told_calmly(self, machine: Machine) -> None:
        machine.gpu_on_bus(0, vendor="0x8086")

        assert machine.check("hardware").verdict is Verdict.NOT_CHECKED

    def test_a_bus_that_is_not_seen_says_nothing(self, machine: Machine) -> None:
        assert "cannot be seen" in machine.check("hardware").summary

    @pytest.mark.parametrize(
        ("driver", "text"),
        [("nouveau", "held by nouveau"), ("", "has no driver"), ("snd", "held by snd")],
    )
    def test_a_gpu_of_another_driver_fails(self, machine: Machine, driver: str, text: str) -> None:
        machine.gpu_on_bus(0, driver=driver)

        outcome = machine.check("hardware")

        assert outcome.verdict is Verdict.FAILED
        assert text in failures(outcome)[0]

    def test_gpus_of_virtual_machines_are_left_alone(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)
        machine.gpu_on_bus(1, driver="vfio-pci")

        outcome = machine.check("hardware")

        assert outcome.verdict is Verdict.OK
        assert any("virtual machines" in text for text in outcome.evidence)

    def test_a_vendor_that_is_no_number_is_passed_over(self, machine: Machine) -> None:
        machine.gpu_on_bus(0, vendor="what")

        assert machine.check("hardware").verdict is Verdict.NOT_CHECKED

    def test_tegra_and_wsl_have_their_gpus_elsewhere(self, machine: Machine) -> None:
        machine.tree.file("/dev/dxg")
        assert "Windows" in machine.check("hardware").summary
        machine.tree.file("/sys/devices/soc0/family", "Tegra\n")
        assert "Tegra" in machine.check("hardware").summary


class TestLibraries:
    def test_one_version_is_well(self, machine: Machine) -> None:
        a_driver(machine)
        a_module(machine)

        outcome = machine.check("driver-files")

        assert outcome.verdict is Verdict.OK
        assert outcome.summary == "driver 550.127.05 in /"
        assert len(outcome.evidence) == 2

    def test_the_root_in_the_container_goes_first(self, machine: Machine) -> None:
        a_driver(machine, root="/driver-root")

        assert machine.check("driver-files").summary == "driver 550.127.05 in /driver-root"

    def test_the_root_on_the_host_is_below_the_hosts_root(self, machine: Machine) -> None:
        machine.host_root = "/host"
        machine.options = ["--driver-root=/run/nvidia/driver"]
        a_driver(machine, root="/host/run/nvidia/driver")

        outcome = machine.check("driver-files")

        assert outcome.summary == "driver 550.127.05 in /host/run/nvidia/driver"

    def test_mixed_versions_fail(self, machine: Machine) -> None:
        a_driver(machine)
        a_driver(machine, "535.183.06")

        outcome = machine.check("driver-files")

        assert "535.183.06, 550.127.05" in failures(outcome)[0]
        assert "ldconfig" in steps(outcome)

    def test_another_kernel_module_fails(self, machine: Machine) -> None:
        a_driver(machine)
        a_module(machine, OPEN_VERSION)

        outcome = machine.check("driver-files")

        assert failures(outcome) == [
            "the libraries are 550.127.05, the loaded kernel module is 570.86.15"
        ]
        assert "modprobe -r" in steps(outcome)

    def test_a_library_that_is_missing_is_a_warning(self, machine: Machine) -> None:
        machine.tree.library(f"{LIB}/libnvidia-ml.so.550.127.05", None)

        assert "libcuda.so is missing" in warnings(machine.check("driver-files"))[0]

    def test_a_gpu_without_driver_fails(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)

        outcome = machine.check("driver-files")

        assert outcome.verdict is Verdict.FAILED
        assert "install" in steps(outcome)

    def test_in_a_container_the_runtime_is_to_blame(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)
        machine.environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

        assert "runtimeClassName" in steps(machine.check("driver-files"))

    def test_a_driver_container_is_found(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)
        a_driver(machine, root="/run/nvidia/driver")

        assert "--driver-root=/run/nvidia/driver" in steps(machine.check("driver-files"))

    def test_without_a_gpu_no_driver_is_missed(self, machine: Machine) -> None:
        assert machine.check("driver-files").verdict is Verdict.NOT_CHECKED

    def test_what_the_loader_finds_counts(self, machine: Machine) -> None:
        machine.nvml = some_facts()

        assert "dynamic loader" in machine.check("driver-files").summary


class TestModule:
    @pytest.mark.parametrize(
        ("text", "version"), [(VERSION, "550.127.05"), (OPEN_VERSION, "570.86.15")]
    )
    def test_its_version_is_told(self, machine: Machine, text: str, version: str) -> None:
        a_module(machine, text)

        outcome = machine.check("kernel-module")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, f"nvidia {version}")

    def test_sysfs_tells_it_as_well(self, machine: Machine) -> None:
        machine.tree.file("/sys/module/nvidia/version", "550.127.05\n")

        assert machine.check("kernel-module").summary == "nvidia 550.127.05"

    def test_nouveau_fails(self, machine: Machine) -> None:
        a_module(machine, "", "nouveau")

        outcome = machine.check("kernel-module")

        assert "nouveau" in failures(outcome)[0]
        assert "blacklist" in steps(outcome)

    def test_a_gpu_without_module_fails(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)

        assert failures(machine.check("kernel-module")) == ["NVIDIA's kernel module is not loaded"]

    def test_without_uvm_cuda_does_not_start(self, machine: Machine) -> None:
        a_module(machine, modules="nvidia")

        assert "nvidia_uvm" in warnings(machine.check("kernel-module"))[0]

    def test_a_machine_without_gpu_needs_none(self, machine: Machine) -> None:
        assert machine.check("kernel-module").verdict is Verdict.NOT_CHECKED


class TestNodes:
    def test_all_of_them_are_well(self, machine: Machine) -> None:
        for path, major, minor in NODES:
            machine.tree.node(path, major, minor)
        machine.tree.node("/dev/nvidia-caps/nvidia-cap1", 511, 1, mode=0o444)

        outcome = machine.check("device-nodes")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "2 of GPUs, and 3 others")
        assert "/dev/nvidia0 195:0 crw-rw-rw- 0:0" in outcome.evidence

    def test_those_of_the_driver_root_go_first(self, machine: Machine) -> None:
        for path, major, minor in NODES:
            machine.tree.node("/driver-root" + path, major, minor)
        machine.tree.file("/dev/nvidia0")

        outcome = machine.check("device-nodes")

        assert outcome.verdict is Verdict.OK
        assert outcome.evidence[0].startswith("/driver-root/dev/")

    def test_missing_ones_fail(self, machine: Machine) -> None:
        machine.tree.node("/dev/nvidiactl", 195, 255)

        outcome = machine.check("device-nodes")

        assert failures(outcome) == [
            "there is no device node /dev/nvidiaN",
            "/dev/nvidia-uvm is missing",
        ]
        assert "nvidia-modprobe" in steps(outcome)

    def test_a_file_in_place_of_a_node_fails(self, machine: Machine) -> None:
        machine.tree.file("/dev/nvidia0")

        assert "/dev/nvidia0 is no device node" in failures(machine.check("device-nodes"))

    def test_nodes_of_root_alone_are_a_warning(self, machine: Machine) -> None:
        for path, major, minor in NODES:
            machine.tree.node(path, major, minor, mode=0o660)

        outcome = machine.check("device-nodes")

        assert len(warnings(outcome)) == 4
        assert "NVreg_DeviceFileMode" in steps(outcome)
        assert outcome.summary.endswith("(and 3 more)")

    def test_a_machine_without_gpu_needs_none(self, machine: Machine) -> None:
        assert machine.check("device-nodes").verdict is Verdict.NOT_CHECKED

    def test_in_a_container_the_runtime_is_to_blame(self, machine: Machine) -> None:
        machine.gpu_on_bus(0)
        machine.tree.file("/.dockerenv")

        assert "runtimeClassName" in steps(machine.check("device-nodes"))
