from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import nvmlsim
from support.doctor import a_gpu, some_facts

from gpu_device_plugin.diagnosis.doctor import nvml_probe as probe
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts
from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend

needs_compiler = pytest.mark.skipif(
    nvmlsim.COMPILER is None, reason="no C compiler to build the NVML simulator with"
)
LIMIT = 30.0


class SimulatedNvml:
    """A driver root with the simulator of NVML, and a node for it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = directory / "root"
        self._profile = directory / "profile"
        library = self.root / "usr/lib64/libnvidia-ml.so.1"
        library.parent.mkdir(parents=True)
        library.symlink_to(nvmlsim.build())
        monkeypatch.setenv("NVMLSIM_PROFILE", str(self._profile))

    def describe(self, profile: str, *extra: str) -> None:
        backend = SimulatedBackend.from_profile(profile)
        inventory = backend.read()
        links = backend.read_links(inventory, lambda: False)
        self._profile.write_text(nvmlsim.profile_text(inventory, links, extra))

    def ask(self, seconds: float = LIMIT, chroot: str = "") -> NvmlFacts:
        return probe.probe_nvml(str(self.root), chroot, seconds)


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedNvml:
    return SimulatedNvml(tmp_path, monkeypatch)


@needs_compiler
class TestProbe:
    def test_a_node_is_read(self, nvml: SimulatedNvml) -> None:
        nvml.describe("dgx-a100-mig", "fail nvmlDeviceGetHandleByIndex@3 15")

        facts = nvml.ask()

        assert not facts.problem
        assert (facts.driver_version, facts.cuda_driver_version) == ("550.127.05", 12040)
        assert facts.count == len(facts.gpus) == 8
        assert "lost" in facts.gpus[3].error.lower()
        truth = SimulatedBackend.from_profile("dgx-a100-mig").read()
        for gpu, real in zip(facts.gpus, truth.gpus, strict=True):
            if gpu.index != 3:
                assert (gpu.uuid, gpu.bus_id) == (real.uuid, real.pci_bus_id)
                assert gpu.mig_current == real.mig_enabled
                assert gpu.mig_devices == (len(real.mig_devices) if real.mig_enabled else None)

    def test_a_mismatch_of_versions_has_its_number(self, nvml: SimulatedNvml) -> None:
        nvml.describe("t4x4", "fail nvmlInit 18")

        facts = nvml.ask()

        assert facts.init_code == 18
        assert "mismatch" in facts.problem.lower()

    def test_mig_that_may_not_be_read_is_told(self, nvml: SimulatedNvml) -> None:
        nvml.describe("dgx-a100-mig-single", "fail nvmlDeviceGetMaxMigDeviceCount 4")

        facts = nvml.ask()

        assert all("ermission" in gpu.mig_error for gpu in facts.gpus)

    def test_gpus_that_cannot_be_counted_are_told(self, nvml: SimulatedNvml) -> None:
        nvml.describe("t4x4", "fail nvmlDeviceGetCount 999")

        assert nvml.ask().count_error

    def test_a_driver_that_hangs_is_told_with_the_question(self, nvml: SimulatedNvml) -> None:
        nvml.describe("t4x4", "delay nvmlDeviceGetHandleByIndex 60000")

        # A busy machine takes a while to start the child.
        for seconds in (2, 6, LIMIT):
            facts = nvml.ask(seconds)
            if "GPU" in facts.hung_at:
                break

        assert facts.hung_at == "the handle of GPU 0"
        assert "hangs" in facts.problem

    def test_the_root_can_be_changed_first(self, nvml: SimulatedNvml, tmp_path: Path) -> None:
        nvml.describe("t4x4")

        # The directory is the host's; whether the right to change the root is there or not.
        facts = probe.probe_nvml("/root", str(tmp_path), LIMIT)

        # The simulator is a link to a file outside, which is not seen from the new root.
        assert facts.library
        assert facts.load_error or facts.count == 4


def test_without_a_library_the_loader_is_quoted(tmp_path: Path) -> None:
    facts = probe.probe_nvml(str(tmp_path), "", LIMIT)

    assert facts.library == "libnvidia-ml.so.1"
    assert facts.load_error


@pytest.mark.parametrize(
    ("child", "crash"),
    [
        ("import os; os.abort()", "SIGABRT in Python"),
        ("import os; os.kill(os.getpid(), 44)", "signal 44 in Python"),
        ('print(\'{"step": "a thing"}\'); raise SystemExit(3)', "exit code 3 in a thing"),
    ],
)
def test_a_crash_is_told(child: str, crash: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CHILD", child)

    assert probe.probe_nvml("/", "", LIMIT).crash == crash


def test_a_child_that_says_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "CHILD", "import time; time.sleep(600)")

    assert probe.probe_nvml("/", "", 0.3).hung_at == "the first question"


def test_what_the_child_writes_is_read_again() -> None:
    facts = some_facts(a_gpu(0), a_gpu(1, error="lost"))
    lines = [{"step": "a"}, {"step": "b"}, {"facts": facts.to_dict()}, [1]]
    output = b"noise\n" + "\n".join(map(json.dumps, lines)).encode()

    assert probe.facts_of(output) == facts
    assert probe.last_step(output) == "b"
    assert probe.facts_of(b"") == NvmlFacts()


class TestSimulated:
    def ask(self, profile: str, *, lost: int | None = None) -> NvmlFacts:
        backend = SimulatedBackend.from_profile(profile)
        if lost is not None:
            backend.node.lose(lost)
        given: Backend = backend
        return probe.simulated_facts(lambda: given)

    def test_its_gpus_are_told(self) -> None:
        facts = self.ask("dgx-a100-mig", lost=2)

        assert facts.count == 8
        assert facts.gpus[2].error == "GPU is lost"
        assert facts.gpus[7].mig_current is False
        assert not facts.problem

    def test_a_driver_that_is_not_loaded_is_told(self) -> None:
        assert "Driver Not Loaded" in self.ask("no-driver").problem


def test_problems_are_told_apart() -> None:
    assert NvmlFacts(crash="SIGSEGV").problem == "it has crashed: SIGSEGV"
    assert not some_facts(hung_at="the end").problem
