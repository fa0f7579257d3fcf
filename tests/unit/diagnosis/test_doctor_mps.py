from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.doctor import MIB, Machine, a_gpu, failures, some_facts, told, warnings

from gpu_device_plugin.diagnosis.doctor.edges import Space
from gpu_device_plugin.diagnosis.doctor.model import Verdict

RESOURCE = "nvidia.com/gpu"
CONFIG = """\
version: v1
sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
"""
HOLD = """\
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def shared(machine: Machine, tmp_path: Path) -> Machine:
    """A machine that shares GPUs through MPS."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    machine.options = [f"--config-file={config}", "--mps-root=/run/nvidia/mps"]
    return machine


@contextmanager
def a_daemon(machine: Machine) -> Iterator[None]:
    """Somebody holds the lock of the daemon, as NVIDIA's does."""
    lock = f"/mps/{RESOURCE}/pipe/control_lock"
    machine.tree.file(lock)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, machine.tree.real(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


@pytest.mark.parametrize("name", ["mps-daemons", "mps-memory"])
def test_without_mps_nothing_is_looked_at(machine: Machine, name: str) -> None:
    assert machine.check(name).summary == "nothing is shared through MPS"
    machine.options = ["--config-file=/nowhere"]
    assert machine.check(name).summary == "the configuration cannot be used"


class TestDaemons:
    def test_one_that_answers_is_well(self, shared: Machine) -> None:
        shared.tree.file("/mps/.ready")
        answers = {"get_server_list": "41", "get_client_list 41": "7\n8\n"}
        shared.edge(ask_mps=lambda _root, _resource, command: (True, answers[command]))

        with a_daemon(shared):
            outcome = shared.check("mps-daemons")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "1 daemon, all answer")
        assert "nvidia.com/gpu: servers 41" in outcome.evidence
        assert "nvidia.com/gpu: server 41 has 2 clients" in outcome.evidence

    def test_one_that_has_died_fails(self, shared: Machine) -> None:
        shared.tree.file(f"/mps/{RESOURCE}/pipe/control_lock")

        assert failures(shared.check("mps-daemons")) == [
            "no MPS daemon runs for nvidia.com/gpu",
            "/mps/.ready is not there: mps-control-daemon has not brought all daemons up",
        ]

    def test_where_the_lock_cannot_be_seen_the_tool_is_asked(self, shared: Machine) -> None:
        shared.tree.file("/mps/.ready")
        shared.tree.link(f"/mps/{RESOURCE}/pipe/control_lock", "control_lock")
        shared.edge(ask_mps=lambda *_: (True, ""))

        outcome = shared.check("mps-daemons")

        assert outcome.verdict is Verdict.OK
        (gap,) = told(outcome, Verdict.NOT_CHECKED)
        assert gap.endswith("control_lock cannot be seen: Too many levels of symbolic links")
        assert "nvidia.com/gpu: servers none, as there are no clients" in outcome.evidence

    def test_one_that_hangs_fails(self, shared: Machine) -> None:
        shared.tree.file("/mps/.ready")
        shared.edge(ask_mps=lambda *_: (False, "no answer within 3 s"))

        with a_daemon(shared):
            outcome = shared.check("mps-daemons")

        assert "does not answer: no answer within 3 s" in failures(outcome)[0]

    def test_without_the_tool_the_lock_has_to_do(self, shared: Machine) -> None:
        shared.tree.file("/mps/.ready")
        shared.edge(find_program=lambda _: None)

        with a_daemon(shared):
            outcome = shared.check("mps-daemons")

        assert outcome.verdict is Verdict.OK
        assert "is not here" in told(outcome, Verdict.NOT_CHECKED)[0]

    def test_no_directory_fails(self, shared: Machine) -> None:
        assert "there is no directory /mps" in failures(shared.check("mps-daemons"))[0]

    def test_an_empty_directory_fails(self, shared: Machine) -> None:
        shared.tree.folder("/run/nvidia/mps")

        assert failures(shared.check("mps-daemons")) == [
            "/run/nvidia/mps holds no files of any daemon"
        ]


class TestMemory:
    def mounted(self, machine: Machine, line: str) -> None:
        machine.tree.folder("/mps/shm")
        machine.tree.file("/proc/self/mountinfo", line)

    def test_a_tmpfs_with_room_is_well(self, shared: Machine) -> None:
        self.mounted(shared, "1 2 0:3 / /mps/shm rw shared:1 - tmpfs shm rw\n")

        assert shared.check("mps-memory").summary == "1024 MiB, 1000 MiB free"

    def test_no_mount_fails(self, shared: Machine) -> None:
        self.mounted(shared, "1 2 0:3 / / rw - ext4 /dev/sda rw\n")

        assert "/mps/shm is no tmpfs" in failures(shared.check("mps-memory"))[0]

    def test_a_full_one_is_a_warning(self, shared: Machine) -> None:
        self.mounted(shared, "1 2 0:3 / /mps/shm rw - tmpfs shm rw\n")
        shared.edge(space=lambda _: Space(1024 * MIB, 3 * MIB, is_read_only=False))

        assert "nearly full" in warnings(shared.check("mps-memory"))[0]

    def test_none_fails_and_no_directory_says_nothing(self, shared: Machine) -> None:
        assert shared.check("mps-memory").verdict is Verdict.NOT_CHECKED
        shared.tree.folder("/mps")
        assert failures(shared.check("mps-memory")) == ["there is no /mps/shm"]


class TestMode:
    def test_open_gpus_without_mps_are_well(self, machine: Machine) -> None:
        machine.nvml = some_facts()

        assert machine.check("compute-mode").summary == "open to every program"

    def test_exclusive_ones_without_mps_fail(self, machine: Machine) -> None:
        machine.nvml = some_facts(a_gpu(0, compute_mode=3), a_gpu(1, compute_mode=2))

        texts = failures(machine.check("compute-mode"))

        assert texts[0] == "GPU 1: the compute mode allows no program at all"
        assert texts[1].startswith("GPU 0 serves one process only")

    def test_exclusive_ones_with_mps_are_well(self, shared: Machine) -> None:
        shared.nvml = some_facts(a_gpu(0, compute_mode=3))

        assert shared.check("compute-mode").summary == "exclusive, for MPS"

    def test_open_ones_with_mps_are_a_warning(self, shared: Machine) -> None:
        shared.nvml = some_facts()

        assert "EXCLUSIVE_PROCESS" in warnings(shared.check("compute-mode"))[0]

    def test_nothing_known_is_told(self, machine: Machine) -> None:
        assert machine.check("compute-mode").summary == "NVML does not tell"
        machine.options = ["--config-file=/nowhere"]
        assert machine.check("compute-mode").summary == "the configuration cannot be used"
