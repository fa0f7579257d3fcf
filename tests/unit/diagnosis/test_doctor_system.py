from __future__ import annotations

import pytest
from support.doctor import MIB, Machine, a_gpu, failures, some_facts, steps, told, warnings

from gpu_device_plugin.diagnosis.doctor.edges import Space
from gpu_device_plugin.diagnosis.doctor.model import Verdict


def no_space(_path: str) -> Space:
    raise PermissionError(13, "Permission denied")


class TestInotify:
    def limits(self, machine: Machine, instances: int, watches: int = 1000) -> None:
        machine.tree.file("/proc/sys/fs/inotify/max_user_instances", f"{instances}\n")
        machine.tree.file("/proc/sys/fs/inotify/max_user_watches", f"{watches}\n")

    def process(self, machine: Machine, pid: int, count: int, watches: int = 1) -> None:
        machine.tree.file(f"/proc/{pid}/status", f"Name:\tapp\nUid:\t{pid % 2}\t0\nVmSize:\t1\n")
        machine.tree.link(f"/proc/{pid}/fd/0", "/dev/null")
        for number in range(1, count + 1):
            machine.tree.link(f"/proc/{pid}/fd/{number}", "anon_inode:inotify")
            lines = "inotify wd:1 ino:2\n" * watches
            machine.tree.file(f"/proc/{pid}/fdinfo/{number}", f"pos: 0\n{lines}")

    def test_room_is_well_and_counted(self, machine: Machine) -> None:
        self.limits(machine, 128)
        self.process(machine, 2, 3)
        self.process(machine, 4, 2, watches=5)
        machine.tree.folder("/proc/5")

        outcome = machine.check("inotify")

        assert outcome.summary == "5 of 128 instances are used by one user"
        assert "uid 0 has 5 instances with 13 watches" in outcome.evidence
        assert "most instances: app (2) 3, app (4) 2" in outcome.evidence

    @pytest.mark.parametrize(
        ("instances", "watches", "name"),
        [(4, 1000, "max_user_instances"), (128, 4, "max_user_watches")],
    )
    def test_a_limit_that_is_near_is_a_warning(
        self, machine: Machine, instances: int, watches: int, name: str
    ) -> None:
        self.limits(machine, instances, watches)
        self.process(machine, 2, 4)

        outcome = machine.check("inotify")

        assert warnings(outcome) == [f"uid 0 uses 4 of 4 (fs.inotify.{name})"]
        assert f"sysctl -w fs.inotify.{name}=16" in steps(outcome)

    def test_no_instance_to_be_had_fails(self, machine: Machine) -> None:
        machine.edge(open_inotify=lambda: "Too many open files")

        outcome = machine.check("inotify")

        assert "Too many open files" in failures(outcome)[0]
        assert "max_user_instances=1024" in steps(outcome)

    def test_processes_of_others_are_a_gap(self, machine: Machine) -> None:
        machine.tree.file("/proc/7/status", "Name:\tapp\nUid:\tx\nVmSize:\t1\n")
        machine.tree.file("/proc/8/status", "Name:\tkthread\n")

        assert told(machine.check("inotify"), Verdict.NOT_CHECKED) == [
            "1 of 2 processes may not be looked into"
        ]


class TestFiles:
    def test_plenty_is_well(self, machine: Machine) -> None:
        machine.tree.file("/proc/sys/fs/file-nr", "100\t0\t9999\n")

        outcome = machine.check("open-files")

        assert outcome.summary == "1048576 for a process"
        assert "fs.file-nr: 100 of 9999 are open on this machine" in outcome.evidence

    def test_an_unlimited_process_is_well(self, machine: Machine) -> None:
        machine.edge(open_files=lambda: (-1, -1))

        assert machine.check("open-files").summary == "unlimited for a process"

    def test_a_soft_limit_can_be_raised(self, machine: Machine) -> None:
        machine.edge(open_files=lambda: (1024, -1))

        assert "can be raised" in machine.check("open-files").evidence[1]

    def test_few_files_are_a_warning(self, machine: Machine) -> None:
        machine.edge(open_files=lambda: (256, 256))

        outcome = machine.check("open-files")

        assert warnings(outcome) == ["a process may open 256 files only"]
        assert "LimitNOFILE" in steps(outcome)

    def test_a_machine_that_is_full_is_a_warning(self, machine: Machine) -> None:
        machine.tree.file("/proc/sys/fs/file-nr", "95 0 100\n")

        assert "95 of 100 files" in warnings(machine.check("open-files"))[0]


class TestMemory:
    def test_room_is_well(self, machine: Machine) -> None:
        assert machine.check("shared-memory").summary == "1000 of 1024 MiB are free"

    def test_the_small_one_of_a_container_is_well(self, machine: Machine) -> None:
        machine.edge(space=lambda _: Space(64 * MIB, 60 * MIB, is_read_only=False))

        assert machine.check("shared-memory").verdict is Verdict.OK

    def test_a_full_one_is_a_warning(self, machine: Machine) -> None:
        machine.edge(space=lambda _: Space(1024 * MIB, MIB, is_read_only=False))

        assert "nearly full: 1 of 1024 MiB" in warnings(machine.check("shared-memory"))[0]

    def test_what_cannot_be_looked_at_is_told(self, machine: Machine) -> None:
        machine.edge(space=no_space)
        assert "Permission denied" in machine.check("shared-memory").summary
        machine.edge(space=lambda _: Space(0, 0, is_read_only=False))
        assert machine.check("shared-memory").verdict is Verdict.NOT_CHECKED


class TestClock:
    def test_a_synchronised_one_is_well(self, machine: Machine) -> None:
        outcome = machine.check("clock")

        assert (outcome.verdict, outcome.summary) == (Verdict.OK, "synchronised")
        assert "2027-01-15 08:00:00 UTC" in outcome.evidence

    def test_one_on_its_own_is_a_warning(self, machine: Machine) -> None:
        machine.edge(is_clock_synchronised=lambda: False)

        assert machine.check("clock").verdict is Verdict.WARNING

    def test_one_of_long_ago_fails(self, machine: Machine) -> None:
        machine.edge(now=lambda: 0.0)

        assert "years behind" in failures(machine.check("clock"))[0]

    def test_one_that_cannot_be_asked_is_plausible(self, machine: Machine) -> None:
        machine.edge(is_clock_synchronised=lambda: None)

        assert machine.check("clock").summary == "plausible"


class TestRights:
    def status(self, machine: Machine, mask: str) -> None:
        machine.tree.file("/proc/self/status", f"Name:\tx\nCapEff:\t{mask}\n")

    def test_root_is_well(self, machine: Machine) -> None:
        self.status(machine, "000001ffffffffff")

        outcome = machine.check("rights")

        assert outcome.summary == "uid 0, DAC_OVERRIDE, SYS_CHROOT, SYS_PTRACE, SYS_ADMIN"

    def test_a_user_sees_little(self, machine: Machine) -> None:
        machine.edge(uid=lambda: 1000)

        outcome = machine.check("rights")

        assert "uid 1000" in warnings(outcome)[0]
        assert "(0x0)" in outcome.evidence[0]

    def test_mig_needs_a_right(self, machine: Machine) -> None:
        machine.nvml = some_facts(a_gpu(mig_current=True))
        self.status(machine, "00000000a80425fb")
        outcome = machine.check("rights")
        assert failures(outcome) == ["MIG is on, and all MIG devices may not be seen"]
        assert "NVIDIA_MIG_MONITOR_DEVICES=all" in steps(outcome)

        machine.tree.file("/proc/driver/nvidia/capabilities/mig/monitor")
        assert machine.check("rights").verdict is Verdict.OK

    def test_cdi_needs_its_directory(self, machine: Machine) -> None:
        machine.options = ["--device-list-strategy=cdi-cri"]
        assert "does not exist" in warnings(machine.check("rights"))[0]

        machine.tree.folder("/var/run/cdi")
        assert machine.check("rights").verdict is Verdict.OK
        machine.edge(can_write=lambda _: False)
        assert "cannot be written" in failures(machine.check("rights"))[0]


class TestConfinement:
    def test_nothing_in_force_is_well(self, machine: Machine) -> None:
        machine.tree.file("/sys/fs/selinux/enforce", "0")

        outcome = machine.check("confinement")

        assert outcome.summary == "no SELinux in force, no profile"
        assert "SELinux: permissive" in outcome.evidence

    def test_a_confined_container_is_a_warning(self, machine: Machine) -> None:
        machine.tree.file("/sys/fs/selinux/enforce", "1")
        machine.tree.file("/proc/self/attr/current", "system_u:system_r:container_t:s0:c1,c2\0")

        assert "container_t" in warnings(machine.check("confinement"))[0]

    def test_a_profile_of_apparmor_is_told(self, machine: Machine) -> None:
        machine.tree.file("/proc/self/attr/current", "cri-containerd.apparmor.d (enforce)\n")

        assert any("AppArmor" in text for text in machine.check("confinement").evidence)

    def test_a_read_only_machine_is_a_warning_and_a_container_is_not(
        self, machine: Machine
    ) -> None:
        machine.edge(space=lambda _: Space(1, 1, is_read_only=True))
        assert "read-only" in warnings(machine.check("confinement"))[0]
        machine.environ = {"container": "podman"}
        assert machine.check("confinement").verdict is Verdict.OK

    def test_a_root_that_cannot_be_looked_at_is_told(self, machine: Machine) -> None:
        machine.edge(space=no_space)

        assert machine.check("confinement").verdict is Verdict.NOT_CHECKED
