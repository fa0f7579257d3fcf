from __future__ import annotations

from typing import Any

import pytest
from support.doctor import NO_LIBRARY, Machine, a_gpu, failures, some_facts, steps, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts

GPU_CHECKS = ("gpu-list", "mig", "gpu-memory", "persistence", "pcie")


@pytest.mark.parametrize("name", ["nvml", *GPU_CHECKS])
def test_a_healthy_node_is_well(machine: Machine, name: str) -> None:
    machine.nvml = some_facts()

    assert machine.check(name).verdict is Verdict.OK


@pytest.mark.parametrize("name", ["nvml", *GPU_CHECKS])
def test_a_machine_without_gpu_is_told_calmly(machine: Machine, name: str) -> None:
    assert machine.check(name).verdict is Verdict.NOT_CHECKED


@pytest.mark.parametrize("name", ["mig", "gpu-memory", "persistence", "pcie"])
def test_a_driver_without_gpus_has_nothing_to_tell(machine: Machine, name: str) -> None:
    machine.nvml = NvmlFacts(library="x", driver_version="550")

    assert machine.check(name).summary == "NVML lists no GPU"


@pytest.mark.parametrize("name", ["gpu-memory", "persistence", "pcie"])
def test_what_the_driver_does_not_tell_is_not_checked(machine: Machine, name: str) -> None:
    unknown = a_gpu(
        persistence=None,
        ecc_current=None,
        ecc_pending=None,
        remap_pending=None,
        remap_failed=None,
        recovery_action=None,
        link_width=None,
    )
    machine.nvml = some_facts(unknown)

    assert machine.check(name).verdict is Verdict.NOT_CHECKED


class TestNvml:
    def test_a_library_that_cannot_be_loaded_fails_where_there_is_a_gpu(
        self, machine: Machine
    ) -> None:
        machine.gpu_on_bus(0)
        machine.nvml = NO_LIBRARY

        outcome = machine.check("nvml")

        assert "cannot be loaded" in failures(outcome)[0]
        assert "driver-files" in steps(outcome)

    def test_a_tegra_needs_none(self, machine: Machine) -> None:
        machine.tree.file("/etc/nv_tegra_release")

        assert machine.check("nvml").verdict is Verdict.NOT_CHECKED

    def test_a_mismatch_names_both_versions_and_what_to_do(self, machine: Machine) -> None:
        machine.tree.file("/sys/module/nvidia/version", "535.183.06")
        machine.nvml = NvmlFacts(
            library="x",
            init_code=18,
            init_error="Driver/library version mismatch",
            nvml_version="12.550.127.05",
        )

        outcome = machine.check("nvml")

        assert "(12.550.127.05) does not match the loaded kernel module (535.183.06)" in (
            outcome.summary
        )
        assert "modprobe -r" in steps(outcome)

    @pytest.mark.parametrize(
        ("code", "step"),
        [(9, "modprobe nvidia"), (4, "root"), (15, "reboot"), (999, "nvidia-smi")],
    )
    def test_an_error_of_the_initialisation_has_its_step(
        self, machine: Machine, code: int, step: str
    ) -> None:
        machine.nvml = NvmlFacts(library="x", init_code=code, init_error="so it is")

        outcome = machine.check("nvml")

        assert failures(outcome) == ["NVML cannot be initialised: so it is"]
        assert step in steps(outcome)

    def test_a_driver_that_hangs_is_named_with_where(self, machine: Machine) -> None:
        machine.nvml = NvmlFacts(library="x", hung_at="the handle of GPU 3")

        assert failures(machine.check("nvml")) == ["NVML hangs: no answer to the handle of GPU 3"]
        assert machine.check("gpu-list").verdict is Verdict.NOT_CHECKED

    def test_a_crash_is_told(self, machine: Machine) -> None:
        machine.nvml = NvmlFacts(crash="SIGSEGV in the initialisation")

        assert "SIGSEGV in the initialisation" in failures(machine.check("nvml"))[0]

    def test_gpus_that_cannot_be_counted_fail(self, machine: Machine) -> None:
        machine.nvml = NvmlFacts(library="x", count_error="Unknown Error")

        assert "cannot count" in failures(machine.check("nvml"))[0]

    def test_versions_are_told(self, machine: Machine) -> None:
        machine.nvml = some_facts()

        assert machine.check("nvml").summary == "driver 550.127.05, CUDA 12.4"


class TestGpus:
    def test_a_lost_gpu_fails(self, machine: Machine) -> None:
        machine.nvml = some_facts(a_gpu(0), a_gpu(1, error="GPU is lost"))

        outcome = machine.check("gpu-list")

        assert failures(outcome) == ["GPU 1 cannot be read: GPU is lost"]
        assert "dmesg" in steps(outcome)

    def test_a_gpu_that_nvml_does_not_list_fails(self, machine: Machine) -> None:
        for number in range(3):
            machine.gpu_on_bus(number)
        machine.gpu_on_bus(3, driver="vfio-pci")
        machine.nvml = some_facts()

        assert failures(machine.check("gpu-list")) == ["NVML lists 2 GPUs, the PCI bus has 3"]

    def test_a_container_that_sees_some_is_a_warning(self, machine: Machine) -> None:
        for number in range(3):
            machine.gpu_on_bus(number)
        machine.nvml = some_facts()
        machine.environ = {"container": "podman"}

        outcome = machine.check("gpu-list")

        assert warnings(outcome) == ["this container sees 2 of the node's 3 GPUs"]
        assert "NVIDIA_VISIBLE_DEVICES=all" in steps(outcome)


class TestMig:
    def test_devices_that_the_strategy_hides_are_a_warning(self, machine: Machine) -> None:
        machine.nvml = some_facts(a_gpu(mig_current=True, mig_pending=True, mig_devices=3))

        assert "--mig-strategy=none does not offer" in warnings(machine.check("mig"))[0]

    def test_devices_that_are_offered_are_well(self, machine: Machine) -> None:
        machine.options = ["--mig-strategy=mixed"]
        machine.nvml = some_facts(
            a_gpu(0, mig_current=True, mig_pending=True, mig_devices=3), a_gpu(1)
        )

        outcome = machine.check("mig")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "on for 1 of 2, strategy mixed")

    @pytest.mark.parametrize(
        ("changes", "text", "step"),
        [
            (
                {"mig_error": "Insufficient Permissions"},
                "may not be read",
                "NVIDIA_MIG_MONITOR_DEVICES=all",
            ),
            ({"mig_error": "Unknown Error"}, "cannot be read: Unknown Error", ""),
            ({"mig_pending": False}, "MIG is on and will be off after a reset", "--gpu-reset -i 0"),
            ({"mig_devices": 0}, "nothing is cut", "nvidia-smi mig -i 0"),
        ],
    )
    def test_what_is_wrong_is_told_with_its_step(
        self, machine: Machine, changes: dict[str, Any], text: str, step: str
    ) -> None:
        machine.options = ["--mig-strategy=single"]
        given: dict[str, Any] = {"mig_current": True, "mig_pending": True, **changes}
        machine.nvml = some_facts(a_gpu(**given))

        outcome = machine.check("mig")

        assert text in outcome.summary
        assert step in steps(outcome)

    def test_a_broken_configuration_counts_as_no_strategy(self, machine: Machine) -> None:
        machine.options = ["--config-file=/nowhere"]
        machine.nvml = some_facts(a_gpu(mig_current=True, mig_pending=True, mig_devices=1))

        assert "--mig-strategy=none" in machine.check("mig").summary


class TestMemory:
    @pytest.mark.parametrize(
        ("changes", "verdict", "text"),
        [
            ({"recovery_action": 1}, Verdict.FAILED, "asks for a reset of the GPU"),
            ({"recovery_action": 99}, Verdict.FAILED, "recovery action 99"),
            ({"remap_failed": True}, Verdict.FAILED, "could not be replaced"),
            ({"remap_pending": True}, Verdict.WARNING, "replaced at the next reset"),
            ({"retired_pending": True}, Verdict.WARNING, "taken out of use"),
            ({"ecc_pending": False}, Verdict.WARNING, "ECC is on and will be off"),
        ],
    )
    def test_each_illness_has_its_verdict(
        self, machine: Machine, changes: dict[str, Any], verdict: Verdict, text: str
    ) -> None:
        machine.nvml = some_facts(a_gpu(0), a_gpu(1, **changes))

        outcome = machine.check("gpu-memory")

        assert outcome.verdict is verdict
        assert outcome.summary.startswith("GPU 1: ")
        assert text in outcome.summary

    def test_a_gpu_that_cannot_be_read_is_passed_over(self, machine: Machine) -> None:
        machine.nvml = some_facts(a_gpu(0), a_gpu(1, error="lost"))

        assert machine.check("gpu-memory").verdict is Verdict.OK


def test_persistence_that_is_off_is_a_warning(machine: Machine) -> None:
    machine.nvml = some_facts(a_gpu(0, persistence=False), a_gpu(1, persistence=False))

    outcome = machine.check("persistence")

    assert "off for GPU 0, 1" in warnings(outcome)[0]
    assert "nvidia-persistenced" in steps(outcome)


def test_missing_lanes_are_a_warning(machine: Machine) -> None:
    machine.nvml = some_facts(a_gpu(0, link_width=8), a_gpu(1))

    outcome = machine.check("pcie")

    assert warnings(outcome) == ["GPU 0 uses 8 of 16 lanes of PCIe"]
    assert "lspci -vv -s 00000000:00:00.0" in steps(outcome)
