from __future__ import annotations

from pathlib import Path

from support.doctor import Machine, failures, some_facts, steps, warnings

from gpu_device_plugin.diagnosis.doctor.model import Verdict


class TestConfig:
    def test_defaults_are_well(self, machine: Machine) -> None:
        machine.options = ["--mig-strategy=mixed"]

        outcome = machine.check("config")

        assert outcome.verdict is Verdict.OK
        assert "mig-strategy is set by --mig-strategy" in outcome.evidence

    def test_a_file_that_cannot_be_used_fails(self, machine: Machine) -> None:
        machine.options = ["--config-file=/nowhere"]

        outcome = machine.check("config")

        assert "/nowhere: the configuration file cannot be read" in failures(outcome)[0]
        assert "set by --config-file" in steps(outcome)

    def test_a_value_that_is_not_allowed_fails(self, machine: Machine) -> None:
        machine.options = ["--mig-strategy=many"]

        assert "many" in failures(machine.check("config"))[0]

    def test_odd_settings_are_warnings(self, machine: Machine, tmp_path: Path) -> None:
        file = tmp_path / "config.yaml"
        file.write_text("version: v1\nflags: {renameByDefault: true}\n")
        machine.options = [f"--config-file={file}"]

        assert "flags.renameByDefault" in warnings(machine.check("config"))[0]


class TestOffer:
    def test_resources_are_told(self, machine: Machine) -> None:
        machine.options = ["--simulate=dgx-a100-mig", "--mig-strategy=mixed"]

        outcome = machine.check("offer")

        assert "GPU 6 has MIG enabled but no MIG devices" in warnings(outcome)[0]
        assert "nvidia.com/mig-3g.20gb: 3" in outcome.evidence

    def test_a_node_without_gpus_offers_nothing(self, machine: Machine) -> None:
        machine.options = ["--simulate=t4x4"]
        assert machine.check("offer").summary == "nvidia.com/gpu: 4"
        machine.options = ["--simulate=no-gpu"]

        assert machine.check("offer").summary == "nothing: no GPU"

    def test_what_does_not_fit_fails(self, machine: Machine) -> None:
        machine.options = ["--simulate=dgx-a100-mig", "--mig-strategy=single"]

        assert "nothing can be offered" in failures(machine.check("offer"))[0]

    def test_gpus_that_are_left_out_are_a_warning(self, machine: Machine) -> None:
        machine.nvml = some_facts()
        machine.profile = "no-gpu"

        assert "would offer none of them" in warnings(machine.check("offer"))[0]

    def test_without_nvml_or_configuration_nothing_is_told(self, machine: Machine) -> None:
        assert "see the check nvml" in machine.check("offer").summary
        machine.options = ["--config-file=/nowhere"]
        assert machine.check("offer").verdict is Verdict.NOT_CHECKED

    def test_the_driver_of_another_root_is_not_loaded(self, machine: Machine) -> None:
        machine.host_root = "/host"
        machine.nvml = some_facts()

        assert "this mount namespace only" in machine.check("offer").summary
